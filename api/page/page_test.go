package page

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// ask has a handler answer a GET.
func ask(h http.HandlerFunc, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// TestWanted: browsers get the page, and clients that take anything do not.
func TestWanted(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"application/json, Text/HTML;q=0.5":                               true,
		"":                                                                false, "*/*": false, "text/*": false, "application/json": false, "text/plain": false,
		"text/html;q=0": false, "text/html; q=0.0": false, "text/html;level=1": true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		require.Equal(t, want, Wanted(r), accept)
	}
}

// plain is Index without examples.
func plain(w http.ResponseWriter, r *http.Request) { Index(w, r, nil) }

// TestExamples: they are text of the page, whatever is in them.
func TestExamples(t *testing.T) {
	w := ask(func(w http.ResponseWriter, r *http.Request) { Index(w, r, []string{`x{a="</template><script>"}`}) }, "/")
	require.Contains(t, w.Body.String(), `<template class="example">x{a=&#34;&lt;/template&gt;&lt;script&gt;&#34;}</template>`)
}

// TestIndex: the page loads what is there, from where it is, and its policy lets it do no more.
func TestIndex(t *testing.T) {
	w := ask(plain, "/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe")
	addresses := regexp.MustCompile(`(?:src|href)="([^"#]*)"`).FindAllStringSubmatch(w.Body.String(), -1)
	require.GreaterOrEqual(t, len(addresses), 3, "a script, a style, a mark")
	for _, a := range addresses {
		require.Regexp(t, `^\./assets/[a-z]+-[\w-]{8}\.(js|css|svg)$`, a[1])
		got := ask(Asset, "/some/prefix"+Assets+path.Base(a[1]))
		require.Equal(t, http.StatusOK, got.Code, a[1])
		require.NotEmpty(t, got.Header().Get("Content-Type"))
		require.Contains(t, got.Header().Get("Cache-Control"), "immutable")
	}
	require.NotContains(t, w.Body.String(), "<style")
	require.NotRegexp(t, `<script[^>]*>[^<]`, w.Body.String())
}

// TestLicences: those of the libraries in the script come with it.
func TestLicences(t *testing.T) {
	w := ask(Asset, Assets+"licences.md")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, []string{"text/plain; charset=utf-8", "no-cache"}, []string{w.Header().Get("Content-Type"), w.Header().Get("Cache-Control")})
	for _, library := range []string{"preact", "uplot", "@codemirror/view", "@prometheus-io/codemirror-promql"} {
		require.Contains(t, w.Body.String(), library)
	}
}

// TestAsset: what is not there is not found, and is not kept.
func TestAsset(t *testing.T) {
	for _, target := range []string{"/assets/nothing.js", "/assets/..%2findex.html", "/assets/"} {
		w := ask(Asset, target)
		require.Equal(t, http.StatusNotFound, w.Code, target)
		require.Empty(t, w.Header().Get("Cache-Control"), target)
	}
}
