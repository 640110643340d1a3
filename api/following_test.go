package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForwardedRedirects: a client gets what a redirect of the upstream leads to, or 502,
// but never where it leads.
func TestForwardedRedirects(t *testing.T) {
	var got *http.Request
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(r.Context())
		_, _ = io.WriteString(w, `{"status":"success","data":["inner"]}`)
	}))
	defer inner.Close()
	// The same server by another name, which is another host.
	elsewhere := strings.Replace(inner.URL, "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		method, to string
		code       int
		want       int
	}{
		{http.MethodGet, elsewhere + "/x", 302, 200},
		{http.MethodGet, elsewhere + "/x", 307, 200},
		{http.MethodPost, elsewhere + "/x", 302, 502},
		{http.MethodPost, elsewhere + "/x", 307, 502},
		{http.MethodGet, "", 302, 502},
		{http.MethodGet, "http://127.0.0.1:1/hidden?token=hidden", 302, 502},
		{http.MethodGet, "", 304, 304},
	} {
		got = nil
		u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			if c.code == http.StatusNotModified {
				w.WriteHeader(c.code)
				return
			}
			to := c.to
			if to == "" {
				to = r.URL.RequestURI()
			}
			http.Redirect(w, r, to, c.code)
		})
		u.base.User = url.UserPassword("me", "hidden")
		a := u.api(t, nil)
		var body io.Reader
		if c.method == http.MethodPost {
			body = strings.NewReader("match[]=up")
		}
		r := httptest.NewRequest(c.method, "/api/v1/series?token=hidden", body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, "%+v: %s", c, w.Body)
		require.Empty(t, w.Header().Get("Location"))
		require.NotContains(t, w.Body.String(), "hidden")
		if c.want == http.StatusOK {
			require.Contains(t, w.Body.String(), "inner")
			require.Empty(t, got.Header.Get("Authorization"))
			require.Empty(t, got.Header.Get("Referer"))
		}
	}
}
