package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

// A method that a door does not take is refused as Prometheus's router refuses it.
func TestMethods(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, c := range []struct {
		method, path string
		code         int
		allow        string
	}{
		{"DELETE", "/api/v1/query", 405, "GET, OPTIONS, POST"},
		{"HEAD", "/api/v1/query", 405, "GET, OPTIONS, POST"},
		{"POST", "/api/v1/label/i/values", 405, "GET, OPTIONS"},
		{"GET", "/api/v1/read", 405, "OPTIONS, POST"},
		{"GET", "/api/v1/write", 405, "OPTIONS, POST"},
		{"GET", "/api/v1/admin/tsdb/snapshot", 405, "OPTIONS, POST, PUT"},
		{"POST", "/federate", 405, "GET, OPTIONS"},
		{"OPTIONS", "/federate", 200, "GET, OPTIONS"},
		{"OPTIONS", "/-/healthy", 200, "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/api/v1/query", 204, ""},
		{"OPTIONS", "/api/v1/nothing", 204, ""},
		{"OPTIONS", "/query", 204, ""},
		{"OPTIONS", "/nothing", 404, ""},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Origin", "http://page")
		w := do(t, a, r)
		require.Equal(t, c.code, w.Code, "%s %s", c.method, c.path)
		require.Equal(t, c.allow, w.Header().Get("Allow"), "%s %s", c.method, c.path)
		switch c.code {
		case 405:
			require.Equal(t, "Method Not Allowed\n", w.Body.String())
		case 204:
			require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
}

// Of a form that is wrong the doors for queries take what can be read.
func TestForms(t *testing.T) {
	a := newTestAPI(t, nil)
	multipart := "--x\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\n1+1\r\n--x--\r\n"
	for _, c := range []struct {
		path, contentType, body string
		code                    int
	}{
		{"/api/v1/query?x=a;b", "application/x-www-form-urlencoded", "query=1", 200},
		{"/api/v1/query?query=1&x=%zz", "", "", 200},
		{"/api/v1/query?query=1", "a;b;c", "x", 200},
		{"/api/v1/query", "multipart/form-data; boundary=x", multipart, 200},
		{"/api/v1/query_range?start=0&end=1&step=1", "multipart/form-data; boundary=x", multipart, 200},
		{"/query", "multipart/form-data; boundary=x", multipart, 200},
		{"/explain", "multipart/form-data; boundary=x", multipart, 200},
		{"/api/v1/query", "multipart/form-data; boundary=x", multipart[:60], 400},
		{"/api/v1/query", "application/x-www-form-urlencoded", "query=1;time=1", 400},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.contentType)
		code, got := decode(t, do(t, a, r))
		require.Equal(t, c.code, code, "%s %s", c.path, c.body)
		if code == 400 {
			require.Contains(t, got.Error, "no expression found", c.body)
		}
	}
	a = newTestAPI(t, func(o *Options) { o.MaxBodyBytes = 100 })
	r := httptest.NewRequest(http.MethodPost, "/api/v1/query", strings.NewReader(multipart[:60]+strings.Repeat("1", 200)))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	code, got := decode(t, do(t, a, r))
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.Contains(t, got.Error, "100 bytes")
}
