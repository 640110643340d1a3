package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
)

// TestBodyMemory: large bodies take memory of the process, and where there is none the
// answer says so and when to come back.
func TestBodyMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 8 << 20, Wait: time.Millisecond})
	taken := pool.Lease(memory.Evaluation)
	require.NoError(t, taken.Grow(t.Context(), 5<<20))
	a := newTestAPI(t, func(o *Options) { o.Memory = pool })
	forwarding := newUpstream(t, func(http.ResponseWriter, *http.Request) {}).api(t, func(o *Options) { o.Memory = pool })
	at := func(a *API, path string, size int) *httptest.ResponseRecorder {
		body := url.Values{"query": {"up"}, "x": {strings.Repeat("a", size)}}.Encode()
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	ask := func(size int) *httptest.ResponseRecorder { return at(a, "/api/v1/query", size) }
	for _, w := range []*httptest.ResponseRecorder{ask(1 << 20), at(forwarding, "/api/v1/labels", 1<<20)} {
		require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), "--memory.limit")
	}
	require.Equal(t, http.StatusOK, ask(1<<10).Code)
	taken.Release()
	require.Equal(t, http.StatusOK, ask(1<<20).Code)
	require.Zero(t, pool.Used())
}

// TestLongParameters: what an error would repeat may not be long.
func TestLongParameters(t *testing.T) {
	a := newTestAPI(t, func(*Options) {})
	for _, name := range []string{"time", "start", "end", "step", "timeout", "limit", "executor", "strict", "exact", "stats"} {
		r := httptest.NewRequest("GET", "/api/v1/query?query=up&"+name+"="+strings.Repeat("x", 5000), nil)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, name)
		require.Contains(t, w.Body.String(), `invalid parameter \"`+name+`\": it is 5000 bytes long`)
	}
}

// TestPrintedDepth: queries whose form grows with the square of their depth are printed up
// to some depth only.
func TestPrintedDepth(t *testing.T) {
	a := newTestAPI(t, func(*Options) {})
	for _, door := range []string{"/api/v1/format_query", "/api/v1/parse_query"} {
		for depth, want := range map[int]int{100: 200, 1000: 400, 5000: 400} {
			query := strings.Repeat("sum(", depth) + "x" + strings.Repeat(")", depth)
			r := httptest.NewRequest("POST", door, strings.NewReader(url.Values{"query": {query}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			start := time.Now()
			a.ServeHTTP(w, r)
			require.Equal(t, want, w.Code, "%s %d", door, depth)
			require.Less(t, time.Since(start), 5*time.Second)
			switch depth {
			case 1000:
				require.Contains(t, w.Body.String(), `nests deeper than the 500 levels that this door prints`)
			case 5000:
				require.Contains(t, w.Body.String(), "--query.max-depth")
			}
		}
	}
}
