package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	hostileTimeout = 2 * time.Second // asked for with each query
	hostileSlack   = 2 * time.Second // how much later it may be answered, on a busy machine
	hostileMemory  = 2 << 30         // bytes, of --memory.limit
	errorBound     = 64 << 10        // bytes, of an error's answer
)

// hostileQuery is a query whose text is the attack.
type hostileQuery struct {
	name, text string
	deadly     bool // for a Prometheus: it is not asked
}

// hostileQueries are too long or too deep, or have regular expressions that compile to much.
func hostileQueries() []hostileQuery {
	nested := func(before, middle, after string, times int) string {
		return strings.Repeat(before, times) + middle + strings.Repeat(after, times)
	}
	all := []hostileQuery{
		{"sum( 2000 deep", nested("sum(", "up", ")", 2000), false},
		{"sum( 20 000 deep", nested("sum(", "up", ")", 20_000), true},
		{"1+1+… of 2000 terms", "1" + strings.Repeat("+1", 1999), false},
		{"up or up or … of 2000 terms", "up" + strings.Repeat(" or up", 1999), false},
		{"up or up or … of 900 terms", "up" + strings.Repeat(" or up", 899), false},
		{"2000 parentheses", nested("(", "1", ")", 2000), false},
		{"2000 minus signs", strings.Repeat("-", 2000) + "up", false},
		{"300 subqueries, one in the other", nested("max_over_time(", "up", "[1m:1m])", 300), false},
		{"500 label_replace", nested("label_replace(", "up", `,"a","$1","b","(.*)")`, 500), false},
		{"abs( 600 000 times", strings.Repeat("abs(", 600_000), true},
		{"abs(…) 600 000 deep", nested("abs(", "up", ")", 600_000), true},
		{"9 MB of terms", "up" + strings.Repeat("+up", 3_000_000), true},
		{"9 MB that do not parse", strings.Repeat("up ", 3_000_000), true},
		{"a string of 9 MB", `"` + strings.Repeat("x", 9_000_000) + `"`, true},
		{"a comment of 9 MB", "1 # " + strings.Repeat("x", 9_000_000), true},
	}
	for _, p := range []hostileQuery{ // patterns: a Prometheus compiles the deadly ones, whatever memory that takes
		{"three repeats", "((x{100}){100}){100}", true},
		{"two repeats", "(x{1000}){1000}", true},
		{"a thousand letters, repeated", "([a-z]{1000})+", false},
		{"backtracking", "(a+)+$", false},
		{"classes", strings.Repeat(`[\\p{L}\\p{N}]{50}`, 20), false},
		{"100 000 alternatives", "a" + strings.Repeat("|b", 100_000), false},
		{"nested groups", nested("(", "a", ")?", 900), false},
		{"groups beyond the limit", nested("(", "a", ")", 5000), false},
		{"1 MB of letters", strings.Repeat("a.", 500_000), false},
	} {
		all = append(all,
			hostileQuery{p.name + " in a matcher", `up{job=~"` + p.text + `"}`, p.deadly},
			hostileQuery{p.name + " in ten matchers", "up{" + strings.Repeat(`job=~"`+p.text+`",`, 10) + "}", true},
			hostileQuery{p.name + " in label_replace", `label_replace(up,"a","$1","job","` + p.text + `")`, p.deadly},
		)
	}
	return all
}

// attacked starts a promwarp with little memory and time before the shared upstream. At the test's end
// it must still be there, with no panic, no more memory than it may have, and goroutines as before.
func attacked(t *testing.T, up *fixture, more ...string) *process {
	t.Helper()
	addr := mustFreeAddr(t)
	args := append(promwarpArgs(addr, up.url), "--gpu=off", "--memory.limit=2GiB", "--web.read-timeout=3s", "--web.write-timeout=3s", "--query.timeout=20s")
	pw := runServer(t, "promwarp", addr, promwarpBin, append(args, more...)...)
	before := gauge(t, pw, "go_goroutines")
	t.Cleanup(func() {
		peak, err := pw.Memory("VmHWM")
		assert.NoError(t, err)
		assert.Less(t, float64(peak), 1.1*hostileMemory)
		assert.Zero(t, gauge(t, pw, "promwarp_http_panics_total"))
		client.CloseIdleConnections()
		assert.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.LessOrEqual(c, gauge(c, pw, "go_goroutines"), before+50)
		}, 15*time.Second, 100*time.Millisecond, "goroutines")
		t.Logf("memory at most %d MB", peak>>20)
	})
	return pw
}

// TestHostileQueries: a query that is deep, long or compiles to much is answered as by Prometheus, or
// refused, at each endpoint and by its deadline. An error that it gets is short.
func TestHostileQueries(t *testing.T) {
	up := upstream(t)
	pw := attacked(t, up)
	for path, parameter := range map[string]string{
		queryPath: "query", rangePath: "query", "/query": "query", "/explain": "query", "/api/v1/format_query": "query", "/api/v1/parse_query": "query",
		"/api/v1/query_exemplars": "query", "/api/v1/series": "match[]", "/api/v1/labels": "match[]",
	} {
		t.Run(path, func(t *testing.T) {
			g := up.grid
			if path != rangePath {
				g.start = g.end.Add(-time.Hour)
			}
			for _, q := range hostileQueries() {
				form := g.rangeForm("")
				form.Set("time", seconds(up.grid.end))
				form.Set("timeout", hostileTimeout.String())
				form.Set(parameter, q.text)
				got := sendHostile(t, q.name, pw.url+path, form)
				require.Contains(t, []int{200, 204, 400, 413, 422, 503}, got.code, "%s: %.300s", q.name, got.body)
				if got.code >= 400 {
					require.Less(t, len(got.body), errorBound, q.name)
				} else if !q.deadly && (path == queryPath || path == rangePath) {
					form.Set("timeout", "500ms") // longer would take the test's time
					if want := ask(t, up.url, path, form); want.code == http.StatusOK {
						requireSame(t, want, answer{got.code, []byte(got.body)}, false, q.name)
					}
				}
			}
		})
	}
	checkMemoryParts(t, pw)
}

// sendHostile posts a form, which must be answered or refused in time.
func sendHostile(t *testing.T, name, url string, form url.Values) listAnswer {
	t.Helper()
	r, err := formRequest(url, form.Encode())
	require.NoError(t, err)
	a, err := sendTimed(r.WithContext(t.Context()))
	require.NoError(t, err, name)
	require.LessOrEqual(t, a.took, hostileTimeout+hostileSlack, "%s: %.300s", name, a.body)
	return a
}

// checkMemoryParts: what promwarp says its memory is for adds up to what the process has, but for the
// pages of its program file.
func checkMemoryParts(t *testing.T, pw *process) {
	t.Helper()
	const program = 64 << 20 // bytes, at most
	parts, resident := gauge(t, pw, "promwarp_memory_bytes"), gauge(t, pw, "process_resident_memory_bytes")
	t.Logf("%.0f MB in parts, %.0f MB resident", parts/1e6, resident/1e6)
	require.Positive(t, parts)
	require.Less(t, parts, 1.15*resident)
	require.Greater(t, parts, resident/1.15-program)
}
