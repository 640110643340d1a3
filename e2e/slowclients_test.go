package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowClients are connections of one address that take a server's time.
type slowClients struct {
	name string
	n    int
	text string // what each sends
	drip string // what each sends then, once a second
	left func(net.Conn) bool
}

// noAnswer says that a connection is open with no answer on it.
func noAnswer(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, err := http.ReadResponse(bufio.NewReader(c), nil)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// established says whether the server's end of a connection is open, which must be on this machine, and
// that a Linux. It reads nothing: what was sent before the server closed it would take long to arrive in
// a small window.
func established(c net.Conn) bool {
	ends := func(field string, a net.Addr) bool {
		return strings.HasSuffix(field, fmt.Sprintf(":%04X", a.(*net.TCPAddr).Port))
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 3 && ends(f[1], c.RemoteAddr()) && ends(f[2], c.LocalAddr()) && f[3] == "01" {
				return true
			}
		}
	}
	return false
}

// TestSlowClients: clients that send a byte a second, nothing, or read nothing of a large answer are cut
// off in the time that a flag says. A client from another address is answered meanwhile.
func TestSlowClients(t *testing.T) {
	up := upstream(t)
	pw := attacked(t, up)
	addr := strings.TrimPrefix(pw.URL, "http://")
	large := up.grid.rangeForm(`{__name__=~".+"}`).Encode()
	for kind, s := range []slowClients{
		{"dripping bodies", 100, "POST /api/v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\nquery=", "u", noAnswer},
		{"dripping headers", 100, "GET /metrics HTTP/1.1\r\nX-A: ", "u", noAnswer},
		{"silent connections", 2000, "", "", func(net.Conn) bool { return false }},
		{"stalled readers", 12, "GET /api/v1/query_range?" + large + " HTTP/1.1\r\nHost: x\r\n\r\n", "", established},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel() // they wait
			conns := make([]net.Conn, s.n)
			for i := range conns {
				c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+kind))}}).Dial("tcp", addr)
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
				require.NoError(t, c.(*net.TCPConn).SetLinger(0))
				_, err = io.WriteString(c, s.text)
				require.NoError(t, err)
				conns[i] = c
			}
			if s.drip == "" && s.text != "" { // until each answer has begun
				for _, c := range conns {
					_, err := io.ReadFull(c, make([]byte, 1))
					require.NoError(t, err)
				}
				require.True(t, s.left(conns[0]))
			}
			fresh := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for range 4 { // seconds; the flags say 3
				resp, err := fresh.Get(pw.URL + "/-/healthy")
				require.NoError(t, err)
				resp.Body.Close()
				time.Sleep(time.Second)
				for _, c := range conns {
					_, _ = io.WriteString(c, s.drip)
				}
			}
			for _, c := range conns {
				if s.drip != "" { // which is cut off within 10 s, whatever the flag says
					require.False(t, s.left(c))
					continue
				}
				require.Eventually(t, func() bool { return !s.left(c) }, 10*time.Second, 100*time.Millisecond)
			}
		})
	}
}

// TestAbortedRequests: requests whose clients leave after some milliseconds leave nothing behind:
// attacked counts goroutines.
func TestAbortedRequests(t *testing.T) {
	up := upstream(t)
	pw := attacked(t, up)
	heavy := heavyRequests(up.grid)
	var all sync.WaitGroup
	for worker := range 40 {
		all.Go(func() {
			for i := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(worker+i)*time.Millisecond)
				r, err := heavy[(worker+i)%len(heavy)].request(pw.URL)
				if assert.NoError(t, err) {
					if resp, err := client.Do(r.WithContext(ctx)); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// TestStrayPaths: no path is answered with a file, a profile or a change.
func TestStrayPaths(t *testing.T) {
	pw := attacked(t, upstream(t))
	for _, path := range []string{
		"/api/v1/../../etc/passwd", "//api/v1/status/config/..", "/api/v1/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd",
		"/debug/pprof/heap", "/debug/pprof/../../metrics", "/api/v1/admin/tsdb/delete_series", "/api/v1/admin/cache/drop", "/-/quit", "/-/reload",
		"/api/v1/query/../admin/tsdb/snapshot", "/" + strings.Repeat("a/", 5000), "/" + strings.Repeat("%2f", 5000), "/%",
		"http://127.0.0.1:1/metrics", "*", "/api/v1/status/config?/../../", "/\x01",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "PUT"} {
			got, err := exchange{request: method + " " + path}.send(pw.URL)
			require.NoError(t, err, "%s %.80s", method, path)
			body := string(got.body)
			// An endpoint that is closed says so with 500, as a Prometheus does.
			require.True(t, got.status < "500" || strings.Contains(body, `"errorType":"unavailable"`), "%s %.80s: %s %.100s", method, path, got.status, body)
			require.NotContains(t, body, "root:", path)
			require.NotContains(t, body, "heap profile", path)
			require.False(t, method != "GET" && got.status < "300" && path != "*", "%s %s: %s %.100s", method, path, got.status, body)
		}
	}
}

const (
	// givenUpGrace is for how long a request may still take a processor once its client has gone.
	givenUpGrace = 100 * time.Millisecond
	// treeGrace is the same for hundreds of selectors, each of which ends by itself: about 50 ms of a
	// processor on a machine with nothing else to do, 300 on a busy one.
	treeGrace = time.Second
	// givenUpWatch is for how long it is then watched.
	givenUpWatch = 300 * time.Millisecond
	// givenUpBound is what the process takes meanwhile at most: it is asked for its metrics, and the
	// collector finishes a cycle.
	givenUpBound = 100 * time.Millisecond
)

// givenUp is a request that takes long.
type givenUp struct {
	name    string
	cold    bool // over a cache that has nothing
	many    bool // selectors
	request func(base string) (*http.Request, error)
}

// heavyRequests are requests of several kinds that take long over the shared data.
func heavyRequests(g grid) []givenUp {
	const all = `{__name__=~".+"}`
	form := func(path string, values url.Values) func(string) (*http.Request, error) {
		return func(base string) (*http.Request, error) { return formRequest(base+path, values.Encode()) }
	}
	fine := grid{g.start, g.end, 15 * time.Second}
	ranged := func(q string) func(string) (*http.Request, error) { return form(rangePath, fine.rangeForm(q)) }
	read := func(types ...prompb.ReadRequest_ResponseType) func(string) (*http.Request, error) {
		return func(base string) (*http.Request, error) {
			return readList(func(r *prompb.ReadRequest, _ int) {
				r.AcceptedResponseTypes = types
				r.Queries = append(r.Queries, &prompb.Query{StartTimestampMs: g.start.UnixMilli() + 1, EndTimestampMs: g.end.UnixMilli() - 1,
					Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}}})
			})(base, 4)
		}
	}
	var labels []string
	for i := range 190 {
		labels = append(labels, fmt.Sprint("l", i))
	}
	resample := url.Values{"match[]": {all}, "start": {seconds(g.start)}, "end": {seconds(g.end)}, "every": {"1m"}, "aggregates": {"median,95pct,nunique"}, "by": {"instance,job,__name__," + strings.Join(labels, ",")}}
	table := url.Values{"format": {"csv"}}
	for name, values := range fine.rangeForm("avg_over_time(" + all + "[1m])") {
		table[name] = values
	}
	tree := selectorTree(900, func(i int) string { return fmt.Sprintf(`max_over_time(up{instance!="none-%d"}[1h])`, i) }, " or ")
	return []givenUp{
		{"a first look", true, false, ranged(`sum by (job) (rate(` + all + `[5m]))`)},
		{"a remote read of chunks, first look", true, false, read(prompb.ReadRequest_STREAMED_XOR_CHUNKS)},
		{"a resample request, first look", true, false, form("/query", resample)},
		{"cached samples, windows", false, false, ranged(`quantile by (job) (0.9, quantile_over_time(0.5, ` + all + `[6h]))`)},
		{"cached samples, Prometheus's engine", false, false, ranged(`count_values by (job) ("v", ` + all + `)`)},
		{"cached samples, a large answer", false, false, ranged(all)},
		{"a table", false, false, form("/query", table)},
		{"a tree of selectors", false, true, ranged(tree)},
		{"a resample request", false, false, form("/query", resample)},
		{"a resample request, as Arrow", false, false, form("/query?format=arrow", resample)},
		{"a remote read of samples", false, false, read(prompb.ReadRequest_SAMPLES)},
		{"a remote read of chunks", false, false, read(prompb.ReadRequest_STREAMED_XOR_CHUNKS)},
		{"federate", false, false, func(base string) (*http.Request, error) {
			return http.NewRequest(http.MethodGet, base+"/federate?"+strings.Repeat("&match[]="+url.QueryEscape(all), 100), nil)
		}},
		{"series", false, false, form("/api/v1/series", url.Values{"match[]": {all, all, all, all, all, all}, "start": {seconds(g.start)}})},
	}
}

// TestGivenUp: a request whose client has gone takes no processor any more, at whatever stage it is.
func TestGivenUp(t *testing.T) {
	up := upstream(t)
	addr := mustFreeAddr(t)
	args := append(promwarpArgs(addr, up.URL), "--gpu.mode=off", "--web.enable-admin-api", "--query.max-samples=1000000000", "--storage.remote.read-sample-limit=0")
	pw := runServer(t, "promwarp", addr, promwarpBin, args...)
	ask(t, pw.URL, rangePath, up.grid.rangeForm(`count({__name__=~".+"})`))
	for _, h := range heavyRequests(up.grid) {
		for _, after := range []time.Duration{20, 100, 300, 1000} {
			after *= time.Millisecond
			var took, whole time.Duration
			for range 3 { // the collector, and what else a process has to do, may take a processor at times
				if h.cold {
					require.Equal(t, http.StatusOK, ask(t, pw.URL, "/api/v1/admin/cache/drop", url.Values{"match[]": {`{__name__=~".+"}`}}).code)
				}
				if took, whole = h.leave(t, pw, after); took <= givenUpBound {
					break
				}
			}
			t.Logf("%-38s left after %4.0f ms: %5.1f ms of a processor in %s", h.name, ms(whole), ms(took), givenUpWatch)
			require.LessOrEqual(t, took, givenUpBound, "%s, left after %s", h.name, whole)
			if whole < after {
				break // it is over before
			}
		}
	}
}

// leave sends the request, leaves after a while, and returns what the process then takes of
// processors, and how long the client was there.
func (h givenUp) leave(t *testing.T, pw *process, after time.Duration) (took, there time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	r, err := h.request(pw.URL)
	require.NoError(t, err)
	begun := time.Now()
	if resp, err := client.Do(r.WithContext(ctx)); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	there = time.Since(begun)
	cancel()
	if h.many {
		time.Sleep(treeGrace)
	} else {
		time.Sleep(givenUpGrace)
	}
	before := gauge(t, pw, "process_cpu_seconds_total")
	time.Sleep(givenUpWatch)
	return time.Duration((gauge(t, pw, "process_cpu_seconds_total") - before) * float64(time.Second)), there
}
