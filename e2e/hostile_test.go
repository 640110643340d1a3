package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
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
	args := append(promwarpArgs(addr, up.URL), "--gpu.mode=off", "--memory.limit=2GiB", "--web.read-timeout=3s", "--web.write-timeout=3s", "--query.timeout=20s")
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
				got := sendHostile(t, q.name, pw.URL+path, form)
				require.Contains(t, []int{200, 204, 400, 413, 422, 503}, got.code, "%s: %.300s", q.name, got.body)
				if got.code >= 400 {
					require.Less(t, len(got.body), errorBound, q.name)
				} else if !q.deadly && (path == queryPath || path == rangePath) {
					form.Set("timeout", "500ms") // longer would take the test's time
					if want := ask(t, up.URL, path, form); want.code == http.StatusOK {
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

// oddBody is a request whose body is huge, of a wrong type, a bomb or garbage.
type oddBody struct {
	name, path, kind string
	body             string
	asks             bool // a query is in it: it may be answered; any other is refused with 4xx
}

func oddBodies() []oddBody {
	const read, protobuf, form, parts = "/api/v1/read", "application/x-protobuf", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	var keys strings.Builder
	for i := range 900_000 {
		fmt.Fprintf(&keys, "k%07d=&", i)
	}
	var many, bomb bytes.Buffer
	w := multipart.NewWriter(&many)
	_ = w.SetBoundary("b")
	for i := range 50_000 {
		_ = w.WriteField(fmt.Sprint("k", i), "v")
	}
	_ = w.Close()
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 100<<20))
	_ = z.Close()
	return []oddBody{
		{"9 MB of keys", queryPath, form, strings.Repeat("a&", 4_500_000), false},
		{"9 MB of keys of their own", queryPath, form, keys.String(), false},
		{"a million match[]", "/api/v1/series", form, strings.Repeat("match[]=up&", 800_000), false},
		{"a million match[] of labels", "/api/v1/labels", form, strings.Repeat("match[]=up&", 800_000), false},
		{"100 MB of form", queryPath, form, strings.Repeat("a", 100<<20), false},
		{"9 MB of percent signs", queryPath, form, strings.Repeat("%", 9_000_000), false},
		{"JSON", queryPath, "application/json", `{"query":"up"}`, false},
		{"JSON, nested", queryPath, "application/json", strings.Repeat("[", 5_000_000), false},
		{"JSON, nested, to /query", "/query", "application/json", strings.Repeat("[", 5_000_000), false},
		{"XML", queryPath, "text/xml", "<query>up</query>", false},
		{"no type", queryPath, "", "query=up", false},
		{"a broken type", queryPath, "a/b; c; d=\"", "query=up", false},
		{"multipart of 50 000 parts", queryPath, parts, many.String(), true},
		{"multipart without an end", queryPath, parts, strings.Repeat("a", 50<<20), false},
		{"garbage to the read door", read, protobuf, strings.Repeat("\xff\xfe", 1_000_000), false},
		{"a snappy bomb to the read door", read, protobuf, "\xff\xff\xff\xff\x0f" + strings.Repeat("\xfe\x01\x00", 100_000), false},
		{"a gzip bomb to the read door", read, protobuf, bomb.String(), false},
		{"50 MB to the read door", read, protobuf, strings.Repeat("a", 50<<20), false},
		{"an executor of 1 MB", queryPath, form, "query=up&executor=" + strings.Repeat("x", 1<<20), false},
		{"a time of 1 MB", queryPath, form, "query=up&time=" + strings.Repeat("9", 1<<20), false},
	}
}

// TestOddBodies: a body in which nothing is asked is refused soon, with a short error.
func TestOddBodies(t *testing.T) {
	pw := attacked(t, upstream(t))
	for _, b := range oddBodies() {
		r, err := http.NewRequest(http.MethodPost, pw.URL+b.path, strings.NewReader(b.body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", b.kind)
		a, err := sendTimed(r.WithContext(t.Context()))
		require.NoError(t, err, b.name)
		t.Logf("%s: %d in %s: %.100s", b.name, a.code, a.took.Round(time.Millisecond), strings.TrimSpace(a.body))
		require.Less(t, a.took, 10*time.Second, b.name)
		require.Less(t, a.code, 500, "%s: %.300s", b.name, a.body)
		if !b.asks {
			require.GreaterOrEqual(t, a.code, 400, b.name)
		}
		if a.code >= 400 {
			require.Less(t, len(a.body), errorBound, b.name)
		}
	}
}

// hostileBytes are what no client sends on a socket. HOST stands for the server's address.
func hostileBytes() map[string]string {
	const smuggled = "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\n\r\n"
	post := func(headers string) string {
		return "POST /api/v1/query HTTP/1.1\r\nHost: HOST\r\n" + headers + "\r\n\r\n"
	}
	get := func(headers string) string {
		return "GET /-/healthy HTTP/1.1\r\nHost: HOST\r\n" + headers + "\r\n\r\n"
	}
	return map[string]string{
		"length and chunks":                   post("Content-Length: 60\r\nTransfer-Encoding: chunked") + "0\r\n\r\n" + smuggled,
		"two lengths":                         post("Content-Length: 0\r\nContent-Length: 44") + smuggled,
		"a length of a list":                  post("Content-Length: 0, 44") + smuggled,
		"a length with a sign":                post("Content-Length: +0") + smuggled,
		"chunks by another name":              post("Transfer-Encoding: xchunked") + "0\r\n\r\n",
		"chunks and more":                     post("Transfer-Encoding: chunked, identity") + "0\r\n\r\n",
		"a folded header":                     get("X-A: b\r\n Transfer-Encoding: chunked"),
		"a space before the colon":            post("Content-Length : 44") + smuggled,
		"a huge chunk":                        post("Transfer-Encoding: chunked") + "ffffffffffffffff0\r\n",
		"a chunk with an extension of 100 kB": post("Transfer-Encoding: chunked") + "1;" + strings.Repeat("a", 100_000) + "\r\na\r\n0\r\n\r\n",
		"a negative length":                   post("Content-Length: -1"),
		"two hosts":                           get("Host: other"),
		"no host":                             "GET /-/healthy HTTP/1.1\r\n\r\n",
		"NUL in a header":                     get("X-A: a\x00b"),
		"HTTP/1.0":                            "GET /-/healthy HTTP/1.0\r\n\r\n",
		"HTTP/0.9":                            "GET /-/healthy\r\n",
		"HTTP/2 without TLS":                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"an upgrade":                          get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"),
		"TLS":                                 "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 500),
		"an unknown expectation":              post("Expect: gold\r\nContent-Length: 0"),
		"CONNECT":                             "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"TRACE":                               "TRACE / HTTP/1.1\r\nHost: HOST\r\nCookie: secret=1\r\n\r\n",
		"a header of 8 MB":                    get("X-A: " + strings.Repeat("a", 8<<20)),
		"100 000 headers":                     get(strings.Repeat("X-A: b\r\n", 100_000) + "X-A: c"),
		"a path of 8 MB":                      "GET /" + strings.Repeat("a", 8<<20) + " HTTP/1.1\r\nHost: HOST\r\n\r\n",
	}
}

// statusesOf sends bytes to a server and lists the statuses of what comes back within some seconds.
func statusesOf(base, text string) string {
	addr := strings.TrimPrefix(base, "http://")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
	go func() { _, _ = io.WriteString(conn, strings.ReplaceAll(text, "HOST", addr)) }()
	in := bufio.NewReader(conn)
	var all []string
	for len(all) < 5 {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		all = append(all, fmt.Sprint(resp.StatusCode))
		_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	return strings.Join(all, "+")
}

// TestHostileBytes: ambiguous lengths, folded headers, other protocols and huge headers get as many
// answers as from a Prometheus, of the same statuses, or are refused: nothing smuggled is answered.
func TestHostileBytes(t *testing.T) {
	up := upstream(t)
	pw := attacked(t, up)
	var all sync.WaitGroup
	for name, text := range hostileBytes() {
		all.Go(func() {
			theirs := make(chan string, 1)
			go func() { theirs <- statusesOf(up.URL, text) }()
			got := statusesOf(pw.URL, text)
			want := <-theirs
			for status := range strings.SplitSeq(got, "+") {
				if got != want && status != "" && status < "400" {
					t.Errorf("%s: %s, of Prometheus %s", name, got, want)
				}
			}
		})
	}
	all.Wait()
}

// TestPipelining: requests that are sent on one connection before an answer is read are answered in
// order.
func TestPipelining(t *testing.T) {
	const n = 1000
	pw := attacked(t, upstream(t))
	conn, err := net.Dial("tcp", strings.TrimPrefix(pw.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	go func() {
		for i := range n {
			fmt.Fprintf(conn, "GET /api/v1/query?query=%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
		}
	}()
	in := bufio.NewReader(conn)
	for i := range n {
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err, i)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err, i)
		require.Contains(t, string(body), fmt.Sprintf(`"%d"`, i))
	}
}

// TestAttackShort: what make attack does for minutes, for some seconds. How long things take says
// nothing on a machine that does other work: only crashes, panics and memory that cannot be read count,
// and with E2E_BARS what make attack holds.
func TestAttackShort(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "attack")
	require.NoError(t, programs.Build(".", "-ldflags=-w", "-o", bin, "./attack"))
	attack := exec.CommandContext(t.Context(), bin, "-bars="+strconv.FormatBool(os.Getenv("E2E_BARS") != ""), "-patience", "6",
		"-promwarp-bin", promwarpBin, "-prometheus-bin", prometheusBin, "-series", "680", "-for", "6s")
	out, err := attack.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "aborted requests: ")
	t.Logf("%s", out)
}
