package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/grafana/regexp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/promapi"
)

// A form as large as may be does not take many times its memory, and is not evaluated in part.
func TestManyKeys(t *testing.T) {
	a := newTestAPI(t, nil)
	for name, c := range map[string]struct{ body, contentType string }{
		"keys":       {"query=1" + strings.Repeat("&a", maxBodyBytes/2-10), "application/x-www-form-urlencoded"},
		"other keys": {"query=1&" + distinctKeys(maxBodyBytes-10), "application/x-www-form-urlencoded"},
		"parts":      {strings.Repeat("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n", maxBodyBytes/60), "multipart/form-data; boundary=x"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/query", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.contentType)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := do(t, a, r)
		runtime.ReadMemStats(&after)
		require.Equal(t, http.StatusBadRequest, w.Code, name)
		took := float64(after.TotalAlloc-before.TotalAlloc) / maxBodyBytes
		t.Logf("%s: %.1f bytes allocated for each byte", name, took)
		require.Less(t, took, 10.0, name)
	}
}

func distinctKeys(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size-8; i++ {
		fmt.Fprintf(&b, "%x&", i)
	}
	return b.String()
}

// Lists are bounded in a form of several parts, too.
func TestListsInParts(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Limits.Items, o.Limits.Selectors = 10, 20 })
	for name, c := range map[string]struct {
		field, value string
		n            int
		want         string
	}{
		"labels":         {"by", "l", 11, "query.max-items"},
		"labels, commas": {"by", strings.Repeat("l,", 10) + "l", 1, "query.max-items"},
		"selectors":      {"match[]", "up", 21, "query.max-selectors"},
		"a query":        {"query", strings.Repeat("up+", 20) + "up", 1, "query.max-selectors"},
	} {
		part := fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", c.field, c.value)
		for _, path := range []string{"/query", "/explain"} {
			r := httptest.NewRequest(http.MethodPost, path+"?metric=up&start=-1h&every=1m&aggregates=max", strings.NewReader(strings.Repeat(part, c.n)+"--x--\r\n"))
			r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
			w := do(t, a, r)
			require.Equal(t, http.StatusBadRequest, w.Code, name)
			require.Contains(t, w.Body.String(), c.want, name)
		}
	}
}

// Files of a form leave nothing behind.
func TestFormFiles(t *testing.T) {
	a := newTestAPI(t, nil)
	t.Setenv("TMPDIR", t.TempDir())
	body := "--x\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\n1\r\n"
	for i := range 900 { // each takes more memory than is counted
		body += fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=\"f%d\"; filename=\"f\"\r\n\r\n%s\r\n", i, strings.Repeat("x", 11<<10))
	}
	a.o.MaxBodyBytes = int64(len(body) + 10)
	a.guard.MaxBodyBytes = a.o.MaxBodyBytes
	r := httptest.NewRequest(http.MethodPost, "/api/v1/query", strings.NewReader(body+"--x--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	require.Equal(t, http.StatusOK, do(t, a, r).Code)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// Where origins are limited, as they are by a regular expression, an allowed one is
// echoed, as in Prometheus, and no other gets anything. Errors are no exception.
func TestOrigins(t *testing.T) {
	origin := regexp.MustCompile("^(?s:http://page)$")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		promapi.Data(w, []string{})
	}))
	defer up.Close()
	base, err := url.Parse(up.URL)
	require.NoError(t, err)
	for n := range 3 {
		a := newTestAPI(t, func(o *Options) {
			o.CORSOrigin = origin
			for i := range n {
				o.Remotes = append(o.Remotes, &forward.Remote{Name: fmt.Sprint(i), Base: base})
			}
		})
		for _, path := range []string{
			"/api/v1/query?query=1", "/api/v1/query?query=1&executor=x", "/query?query=1&strict=x", "/explain?query=1", "/explain", "/api/v1/labels",
			"/api/v1/label/%2e%2e/values", "/api/v1/write", "/api/v1/status/flags",
		} {
			for _, c := range [][3]string{
				{http.MethodGet, "http://page", "http://page"}, {http.MethodGet, "http://evil", ""}, {http.MethodOptions, "http://page", "http://page"},
			} {
				from, want := c[1], c[2]
				r := httptest.NewRequest(c[0], path, nil)
				r.Header.Set("Origin", from)
				w := do(t, a, r)
				if path == "/api/v1/write" || path == "/api/v1/label/%2e%2e/values" && n == 0 {
					want = w.Header().Get("Access-Control-Allow-Origin") // refused before anybody is asked
					require.NotEqual(t, "*", want)
					continue
				}
				require.Equal(t, want, w.Header().Get("Access-Control-Allow-Origin"), "%d upstreams: %s from %s", n, path, from)
			}
		}
	}
}

// What upstreams list is not read beyond a limit.
func TestListsAreBounded(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		promapi.Data(w, []string{strings.Repeat("a", 2000)})
	}))
	defer up.Close()
	base, err := url.Parse(up.URL)
	require.NoError(t, err)
	kept := func() labels.Labels { return labels.FromStrings("cluster", "eu") }
	for name, remotes := range map[string][]*forward.Remote{
		"several": {{Name: "one", Base: base}, {Name: "two", Base: base}},
		"kept":    {{Name: "one", Base: base, Kept: kept}},
	} {
		for limit, want := range map[int64]int{1000: 502, 100_000: 200} {
			a := newTestAPI(t, func(o *Options) { o.Remotes, o.MaxListBytes = remotes, limit })
			w := do(t, a, httptest.NewRequest(http.MethodGet, "/api/v1/labels", nil))
			require.Equal(t, want, w.Code, "%s: %.300s", name, w.Body)
			if want != 200 {
				require.Contains(t, w.Body.String(), "--upstream.max-bytes", name)
			}
		}
	}
}
