package api

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
)

// Links to Prometheus's pages lead to the upstream's, without its credentials.
func TestPages(t *testing.T) {
	parse := func(text string) *url.URL {
		u, err := url.Parse(text)
		require.NoError(t, err)
		return u
	}
	secretly := parse("https://me:secret@prometheus.example/base%2Fpath/?token=secret#secret")
	one := newTestAPI(t, func(o *Options) { o.Remotes = []*forward.Remote{{Base: secretly}} })
	other := newTestAPI(t, func(o *Options) {
		o.Remotes = []*forward.Remote{{Base: parse("http://a")}, {Base: parse("http://b")}}
		o.PagesURL = parse("http://me:secret@pages.example?token=secret")
	})
	for path, rest := range map[string]string{
		"/graph":                                "/graph",
		"/graph?g0.expr=up&g0.tab=1":            "/graph?g0.expr=up&g0.tab=1",
		"/graph?g0.expr=sum%28up%29+%3E%0D%0Ax": "/graph?g0.expr=sum%28up%29+%3E%0D%0Ax",
		"/query?g0.expr=up":                     "/graph?g0.expr=up",
		"/alerts?search=x":                      "/alerts?search=x",
		"/tsdb-status":                          "/tsdb-status",
	} {
		for _, c := range []struct {
			a    *API
			base string
		}{{one, "https://prometheus.example/base%2Fpath"}, {other, "http://pages.example"}} {
			w := do(t, c.a, httptest.NewRequest("GET", path, nil))
			require.Equal(t, 302, w.Code, path)
			require.Equal(t, c.base+rest, w.Header().Get("Location"))
			require.NotContains(t, w.Body.String(), "secret")
		}
	}
	// What is a query is answered.
	for _, path := range []string{"/query?query=1", "/query?query=1&g0.expr=up"} {
		code, _ := getJSON(t, one, path)
		require.Equal(t, 200, code, path)
	}
	for name, a := range map[string]*API{
		"data directory":   newTestAPI(t, nil),
		"no known API":     newTestAPI(t, func(o *Options) { o.Remotes = []*forward.Remote{{Name: "http://store/read"}} }),
		"several of which": newTestAPI(t, func(o *Options) { o.Remotes = []*forward.Remote{{Base: parse("http://a")}, {Base: parse("http://b")}} }),
	} {
		code, got := getJSON(t, a, "/graph?g0.expr=up")
		require.Equal(t, 404, code, name)
		require.Contains(t, got.Error, "web.upstream-url", name)
	}
}
