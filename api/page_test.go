package api

import (
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage: at / a browser gets the page, and all others the list of doors, as text.
func TestPage(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, method := range []string{"GET", "HEAD"} {
		r := httptest.NewRequest(method, "/", nil)
		w := do(t, a, r)
		require.Equal(t, 200, w.Code)
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
		require.Contains(t, w.Header().Values("Vary"), "Accept")
		require.Contains(t, w.Body.String(), "/api/v1/query_range")

		r.Header.Set("Accept", "text/html,*/*;q=0.8")
		w = do(t, a, r)
		require.Equal(t, 200, w.Code)
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		require.Contains(t, w.Header().Values("Vary"), "Accept")
		require.Equal(t, method == "HEAD", w.Body.Len() == 0)
	}
	r := httptest.NewRequest("GET", "/?anything=1", nil)
	r.Header.Set("Accept", "text/html")
	script := regexp.MustCompile(`assets/index-[\w-]+\.js`).FindString(do(t, a, r).Body.String())
	r = httptest.NewRequest("GET", "/"+script, nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := do(t, a, r)
	require.Equal(t, 200, w.Code)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	require.Less(t, w.Body.Len(), 400<<10, "the page is small")
	require.Equal(t, 405, do(t, a, httptest.NewRequest("POST", "/"+script, nil)).Code)
	require.Equal(t, 404, do(t, a, httptest.NewRequest("GET", "/assets/none.js", nil)).Code)
}
