package remoteread

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	commonconfig "github.com/prometheus/common/config"
	"github.com/stretchr/testify/require"
)

// TestRedirects: a redirect is followed where the request stays what it is, and no
// credentials go to where it leads.
func TestRedirects(t *testing.T) {
	good := frames(wireSeries(0, 100, "__name__", "a"))
	var got []*http.Request
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Clone(r.Context()))
		streamed(w, good)
	}))
	defer elsewhere.Close()
	for _, c := range []struct {
		code int
		to   string
		want string // an error; empty where it is followed
	}{
		{307, elsewhere.URL + "/read", ""},
		{308, elsewhere.URL + "/read", ""},
		{301, elsewhere.URL + "/read", "HTTP status 301 Moved Permanently to " + elsewhere.URL + "/read; set the URL"},
		{302, elsewhere.URL + "/read?token=hidden", "HTTP status 302 Found to " + elsewhere.URL + "/read; set the URL"},
		{303, elsewhere.URL + "/read", "HTTP status 303 See Other to"},
		{307, "", "stopped after 10 redirects"},
		{307, "http://u:hidden@127.0.0.1:1/?token=hidden", "no answer"},
	} {
		got = nil
		base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
			require.Equal(t, http.MethodPost, r.Method)
			require.NotEmpty(t, r.Header.Get("Authorization"))
			require.Equal(t, "hidden-header", r.Header.Get("X-Api-Key"))
			to := c.to
			if to == "" {
				to = r.URL.RequestURI()
			}
			http.Redirect(w, r, to, c.code)
		})
		cfg := readConfig(t, strings.Replace(base, "http://", "http://user:hidden-password@", 1)+"?token=hidden-token")
		cfg.Headers = map[string]string{"X-Api-Key": "hidden-header"}
		cfg.HTTPClientConfig.Authorization = &commonconfig.Authorization{Type: "Bearer", Credentials: "hidden-bearer"}
		o := quick()
		o.Retries = -1
		sel, _, err := newClient(t, cfg, o).Fetch(t.Context(), 0, hour, anything)
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hidden")
			require.LessOrEqual(t, requests.Load(), int64(10))
			require.Empty(t, got)
			continue
		}
		require.NoError(t, err, c.code)
		require.Equal(t, 1, sel.NumSeries())
		require.Len(t, got, 1)
		require.Equal(t, http.MethodPost, got[0].Method)
		for name, values := range got[0].Header {
			require.NotContains(t, strings.Join(values, " "), "hidden", name)
			require.NotContains(t, []string{"Authorization", "Referer", "X-Api-Key"}, name)
		}
	}
}

// Headers go to another path of the same server, which a redirect may lead to.
func TestRedirectWithinTheServer(t *testing.T) {
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		require.Equal(t, "tenant", r.Header.Get("X-Scope-OrgID"))
		require.Empty(t, r.Header.Get("Referer"))
		if n == 1 {
			http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
			return
		}
		require.Equal(t, "/elsewhere", r.URL.Path)
		streamed(w, nil)
	})
	cfg := readConfig(t, base)
	cfg.Headers = map[string]string{"X-Scope-OrgID": "tenant"}
	_, _, err := newClient(t, cfg, quick()).Fetch(t.Context(), 0, hour, anything)
	require.NoError(t, err)
	require.EqualValues(t, 2, requests.Load())
}
