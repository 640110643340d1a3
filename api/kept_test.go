package api

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
)

// keptSeries are stored series, some of which have a label of their own that is external.
const keptSeries = `load 1m
  x{i="1"} 1 2 3
  x{i="2", cluster="eu"} 1 2 3
  x{i="3", cluster="us", room="5"} 1 2 3
  y{i="4", room="5"} 1 2 3
  y{i="5", room="6"} 1 2 3
`

// TestKeptLabels: where external labels are kept, labels, values and series are those of
// series that have them.
func TestKeptLabels(t *testing.T) {
	stored := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, keptSeries) })
	upstream := httptest.NewServer(stored)
	defer upstream.Close()
	base, _ := url.Parse(upstream.URL)
	ext := labels.FromStrings("cluster", "eu", "room", "7")
	kept := newTestAPI(t, func(o *Options) {
		o.Remotes = []*forward.Remote{{Name: upstream.URL, Base: base, Kept: func() labels.Labels { return ext }}}
	})
	shown := newTestAPI(t, func(o *Options) {
		o.Queryable = newStorage(t, `load 1m
  x{i="1", cluster="eu", room="7"} 1 2 3
  x{i="2", cluster="eu", room="7"} 1 2 3
  x{i="3", cluster="us", room="5"} 1 2 3
  y{i="4", cluster="eu", room="5"} 1 2 3
  y{i="5", cluster="eu", room="6"} 1 2 3
`)
	})
	selectors := []string{
		`x`, `y`, `{cluster="eu"}`, `{cluster!="eu",i!=""}`, `x{cluster="us"}`, `{room="7"}`, `{room=~"5|7",cluster="eu"}`, `{room!="7",i=~".+"}`, `z`,
		`{cluster="",i!=""}`, `y{room=~".+"}`, `{__name__=~".+",cluster!~"u.*"}`, `{room="7",cluster="us"}`,
	}
	list := func(a *API, path string, form url.Values) (out []string) {
		code, got := getJSON(t, a, path+"?"+form.Encode())
		require.Equal(t, 200, code, "%s %s: %s", path, form, got.Error)
		var all []json.RawMessage
		require.NoError(t, json.Unmarshal(got.Data, &all))
		for _, v := range all {
			out = append(out, string(v))
		}
		slices.Sort(out)
		return out
	}
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for range 200 {
		form := url.Values{"start": {"0"}, "end": {"200"}}
		for range r.IntN(3) {
			form.Add("match[]", selectors[r.IntN(len(selectors))])
		}
		for _, path := range []string{"labels", "series", "label/cluster/values", "label/room/values", "label/i/values", "label/none/values"} {
			if path == "series" && len(form["match[]"]) == 0 {
				continue
			}
			require.Equal(t, list(shown, "/api/v1/"+path, form), list(kept, "/api/v1/"+path, form), "%s %s", path, form)
		}
	}
	_, got := getJSON(t, kept, "/api/v1/label/cluster/values")
	require.Empty(t, got.Warnings, "that a list was cut, which promwarp asked for")
	for selector, why := range map[string]string{"x{": "parse error", `{cluster=""}`: "non-empty matcher"} {
		code, got := getJSON(t, kept, "/api/v1/series?match[]="+url.QueryEscape(selector))
		require.Equal(t, 400, code)
		require.Contains(t, got.Error, why)
	}
}

// TestKeptLabelsOfAFailingUpstream: where a list takes two questions and the second fails, the
// list is an error and not one that lacks a value.
func TestKeptLabelsOfAFailingUpstream(t *testing.T) {
	stored := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, keptSeries) })
	var fault http.HandlerFunc
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/series") {
			fault(w, r)
			return
		}
		stored.ServeHTTP(w, r)
	}))
	defer upstream.Close()
	base, _ := url.Parse(upstream.URL)
	kept := newTestAPI(t, func(o *Options) {
		o.Remotes = []*forward.Remote{{Name: upstream.URL, Base: base, Kept: func() labels.Labels { return labels.FromStrings("cluster", "eu") }}}
	})
	const path = "/api/v1/label/cluster/values?match[]=x"
	for name, c := range map[string]struct {
		fault http.HandlerFunc
		code  int
		text  string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"unavailable","error":"too busy"}`))
		}, http.StatusServiceUnavailable, "too busy"},
		"no API": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, http.StatusBadGateway, "which no Prometheus does"},
	} {
		t.Run(name, func(t *testing.T) {
			fault = c.fault
			code, got := getJSON(t, kept, path)
			require.Equal(t, c.code, code)
			require.Contains(t, got.Error, c.text)
		})
	}
	fault = stored.ServeHTTP
	code, got := getJSON(t, kept, path)
	require.Equal(t, 200, code)
	require.JSONEq(t, `["eu","us"]`, string(got.Data))
}
