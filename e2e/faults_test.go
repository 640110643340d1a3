package e2e

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// smallGrid is a few hours that end a while ago.
func smallGrid(hours int) grid {
	end := time.Now().Add(-time.Hour).Truncate(time.Minute)
	return grid{end.Add(-time.Duration(hours) * time.Hour), end, time.Minute}
}

// When the upstream is gone promwarp says so and goes on serving; when it is
// back, so are the answers.
func TestUpstreamGone(t *testing.T) {
	g := smallGrid(3)
	dir := smallData(t, g.end, 3)
	addr := mustFreeAddr(t)
	up := prometheus(t, addr, dir, "")
	pw := promwarp(t, up.url)
	const q = `sum by (job) (rate(http_requests_total[5m]))`
	want := ask(t, up.url, rangePath, g.rangeForm(q))
	require.Equal(t, http.StatusOK, want.code)
	require.NotContains(t, string(want.body), `"result":[]`)
	requireSame(t, want, ask(t, pw.url, rangePath, g.rangeForm(q)), false, "before")

	up.kill()
	for range 3 {
		a := ask(t, pw.url, rangePath, g.rangeForm(`sum by (type) (node_memory_bytes)`))
		require.NotEqual(t, http.StatusOK, a.code, "an answer without an upstream: %s", a.body)
		r, err := a.parse()
		require.NoError(t, err)
		require.Equal(t, "error", r.Status)
		require.NotEmpty(t, r.ErrorType)
		require.Contains(t, r.Error, "refused", "the cause")
		require.Contains(t, r.Error, addr, "which server")
	}
	// What needs no upstream still works.
	a := ask(t, pw.url, queryPath, instantForm("1 + 1", g.end))
	require.Equal(t, http.StatusOK, a.code)

	prometheus(t, addr, dir, "")
	requireSame(t, want, ask(t, pw.url, rangePath, g.rangeForm(q)), false, "after")
	form := g.rangeForm(`sum by (type) (node_memory_bytes)`)
	requireSame(t, ask(t, up.url, rangePath, form), ask(t, pw.url, rangePath, form), false, "what had failed")
}

// An upstream that dies while it answers never leads to half an answer.
func TestUpstreamDiesWhileAnswering(t *testing.T) {
	g := smallGrid(3)
	addr := mustFreeAddr(t)
	up := prometheus(t, addr, smallData(t, g.end, 3), "")
	for _, limit := range []int64{0, 100, 5_000, 50_000} {
		proxy := newProxy(t, up.url)
		pw := promwarp(t, proxy.url)
		form := g.rangeForm(`sum by (job) (rate(http_requests_total[5m]))`)
		for range 2 {
			proxy.cutReadsAfter(limit)
			a := ask(t, pw.url, rangePath, form)
			require.NotEqual(t, http.StatusOK, a.code, "an answer after %d bytes: %.200s", limit, a.body)
			r, err := a.parse()
			require.NoError(t, err)
			require.NotEmpty(t, r.Error)
		}
		proxy.cutReadsAfter(-1)
		requireSame(t, ask(t, up.url, rangePath, form), ask(t, pw.url, rangePath, form), false, "afterwards")
	}
}

func TestPortInUse(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	addr := strings.TrimPrefix(taken.URL, "http://")
	pw, err := start("promwarp", addr, promwarpBin, promwarpArgs(addr, "http://127.0.0.1:9")...)
	require.NoError(t, err)
	defer pw.kill()
	require.Equal(t, 1, pw.wait(t, 20*time.Second), pw.log.tail())
	require.Contains(t, pw.log.String(), "in use")
	require.Contains(t, pw.log.String(), addr)
}

// A query in flight when the program is told to end is answered.
func TestTermFinishesQueries(t *testing.T) {
	g := smallGrid(1)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 1), "")
	proxy := newProxy(t, up.url)
	pw := promwarp(t, proxy.url)
	// Only now: at its start promwarp reads to find out what its upstream can.
	reading := proxy.delayReads(1500 * time.Millisecond)
	form := g.rangeForm(`sum by (job) (rate(http_requests_total[5m]))`)

	type result struct {
		answer
		err error
	}
	done := make(chan result, 1)
	go func() {
		a, err := post(t.Context(), pw.url, rangePath, form)
		done <- result{a, err}
	}()
	select {
	case <-reading:
	case <-time.After(20 * time.Second):
		t.Fatal("promwarp did not read from its upstream")
	}
	pw.signal(syscall.SIGTERM)
	r := <-done
	require.NoError(t, r.err)
	requireSame(t, ask(t, up.url, rangePath, form), r.answer, false, "the query in flight")
	require.Equal(t, 0, pw.wait(t, 20*time.Second), pw.log.tail())
}

// proxy stands between promwarp and its upstream and makes remote reads go
// wrong.
type proxy struct {
	url     string
	delayed chan struct{} // receives when a read begins to be delayed

	mu    sync.Mutex
	delay time.Duration // of each read
	left  int64         // bytes of answers still let through; negative lets all through
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	p := &proxy{left: -1, delayed: make(chan struct{}, 100)}
	forward := httputil.NewSingleHostReverseProxy(u)
	forward.FlushInterval = -1
	forward.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/v1/read") {
			p.wait()
			w = &cutWriter{w, p}
		}
		forward.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = forward.ErrorLog
	server.Start()
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// cutReadsAfter lets n bytes of answers through, of all together, and then
// drops connections; a negative n lets all through.
func (p *proxy) cutReadsAfter(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n
}

// take says how many of n bytes are let through.
func (p *proxy) take(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left >= 0 {
		n = int(min(int64(n), p.left))
		p.left -= int64(n)
	}
	return n
}

// delayReads delays the reads that begin from now on and returns what tells
// that one is being delayed.
func (p *proxy) delayReads(d time.Duration) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
	return p.delayed
}

// wait delays a read, if reads are to be delayed.
func (p *proxy) wait() {
	p.mu.Lock()
	d := p.delay
	p.mu.Unlock()
	if d <= 0 {
		return
	}
	select {
	case p.delayed <- struct{}{}:
	default:
	}
	time.Sleep(d)
}

// cutWriter drops the connection once its proxy lets no more through.
type cutWriter struct {
	http.ResponseWriter
	p *proxy
}

// Write implements io.Writer.
func (c *cutWriter) Write(b []byte) (int, error) {
	n := c.p.take(len(b))
	if n < len(b) {
		_, _ = c.ResponseWriter.Write(b[:n])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap lets the reverse proxy flush.
func (c *cutWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
