package api

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// A request finds its door however its path is written, or is redirected there.
func TestPaths(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, c := range []struct {
		method, path string
		code         int
		location     string
	}{
		{"GET", "/api/v1/query?query=1", 200, ""},
		{"GET", "/api/v1/%71uery?query=1", 200, ""},
		{"GET", "/api/v1/label/a%2Fb/values", 200, ""},
		{"GET", "/api/v1/label/%61%2fb/values", 200, ""},
		{"GET", "/api/v1/label/a%2F%2Fb/values", 200, ""},
		{"GET", "/api/v1/label/%FF/values", 400, ""},
		{"GET", "//api/v1/query?query=1", 307, "/api/v1/query?query=1"},
		{"POST", "/api/v1//query", 307, "/api/v1/query"},
		{"GET", "/api/v1/./query", 307, "/api/v1/query"},
		{"GET", "/x/../api/v1/query", 307, "/api/v1/query"},
		{"GET", "/api/v1", 307, "/api/v1/"},
		{"GET", "/api/v1/query/?query=1&time=1", 301, "/api/v1/query?query=1&time=1"},
		{"POST", "/api/v1/query/", 307, "/api/v1/query"},
		{"GET", "/api/v1/QUERY_range?x=A", 301, "/api/v1/query_range?x=A"},
		{"GET", "/api/v1/label/A%2FB/values/", 301, "/api/v1/label/A%2FB/values"},
		{"GET", "/api/v1/LABEL/Job/values", 404, ""}, // not to the values of job
		{"GET", "/api/v1/", 404, ""},
		{"GET", "/api/v1/nothing/", 404, ""},
		{"GET", "/nothing", 404, ""},
		{"GET", "/%2F/evil.example/", 404, ""},
	} {
		r := httptest.NewRequest(c.method, "http://promwarp/", nil)
		var err error
		r.URL, err = url.ParseRequestURI(c.path)
		require.NoError(t, err)
		w := do(t, a, r)
		require.Equal(t, c.code, w.Code, "%s %s", c.method, c.path)
		require.Equal(t, c.location, w.Header().Get("Location"), "%s %s", c.method, c.path)
	}
}
