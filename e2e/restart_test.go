package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restarts is a Prometheus, of which promwarps answer one after the other, with a cache on disk.
type restarts struct {
	up   *process
	grid grid
	want map[string]answer // by query
}

// newRestarts starts a Prometheus with hours of data until end.
func newRestarts(t *testing.T, end time.Time, hours int) *restarts {
	t.Helper()
	r := &restarts{want: map[string]answer{}, grid: grid{end.Add(-time.Duration(hours) * time.Hour), end, 5 * time.Minute}}
	r.up = prometheus(t, mustFreeAddr(t), smallData(t, end, hours), "")
	for _, q := range []string{
		`sum by (job) (count_over_time(up[5m]))`, `max by (type) (node_memory_bytes)`,
		`count by (__name__) ({__name__=~".+"})`, `max by (job) (rate(http_requests_total[5m]))`,
	} {
		r.want[q] = ask(t, r.up.URL, rangePath, r.grid.rangeForm(q))
		require.Equal(t, http.StatusOK, r.want[q].code)
		require.Greater(t, len(r.want[q].body), 200)
	}
	return r
}

// start starts a promwarp with its cache in a directory.
func (r *restarts) start(t *testing.T, dir string) *process {
	t.Helper()
	addr := mustFreeAddr(t)
	return runServer(t, "promwarp", addr, promwarpBin, append(promwarpArgs(addr, r.up.URL), "--gpu.mode=off", "--cache.path="+dir)...)
}

// right requires the right answers.
func (r *restarts) right(t *testing.T, pw *process) {
	t.Helper()
	for range 2 {
		for q, want := range r.want {
			requireSame(t, want, ask(t, pw.URL, rangePath, r.grid.rangeForm(q)), false, q)
		}
	}
}

// fill has a promwarp fill a directory, ends it, and returns the files.
func (r *restarts) fill(t *testing.T, dir string) (files []string) {
	t.Helper()
	pw := r.start(t, dir)
	r.right(t, pw)
	require.Eventually(t, func() bool { return gauge(t, pw, "promwarp_cache_disk_entries") >= 3 }, 10*time.Second, 50*time.Millisecond)
	pw.signal(syscall.SIGTERM)
	require.Equal(t, 0, pw.wait(t, 20*time.Second))
	return filesOf(t, dir)
}

// filesOf are the files in a folder that hold something.
func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if i, err := d.Info(); err == nil && i.Size() > 0 {
			files = append(files, path)
		}
		return nil
	}))
	require.NotEmpty(t, files)
	return files
}

// damages are what may become of the files of a cache while no promwarp runs.
func damages(random *rand.Rand) map[string]func(files []string) error {
	each := func(change func(path string, b []byte) error) func([]string) error {
		return func(files []string) error {
			for _, path := range files {
				b, err := os.ReadFile(path)
				if err := errors.Join(err, change(path, b)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	write := func(path string, b []byte) error { return os.WriteFile(path, b, 0o600) }
	return map[string]func(files []string) error{
		"truncated": each(func(path string, b []byte) error { return write(path, b[:random.IntN(len(b))]) }),
		"empty":     each(func(path string, _ []byte) error { return write(path, nil) }),
		"longer":    each(func(path string, b []byte) error { return write(path, append(b, make([]byte, 100_000)...)) }),
		"flipped bits": each(func(path string, b []byte) error {
			for range 1 + len(b)/5000 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return write(path, b)
		}),
		"zeros in the middle": each(func(path string, b []byte) error {
			clear(b[len(b)/3 : len(b)/2])
			return write(path, b)
		}),
		"another program's": each(func(path string, _ []byte) error { return write(path, []byte("%PDF-1.7\nnot a cache")) }),
		"folders": each(func(path string, _ []byte) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "a folder"), 0o700))
		}),
		"links":                 each(func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) }),
		"gone":                  each(func(path string, _ []byte) error { return os.Remove(path) }),
		"the directory is gone": func(files []string) error { return os.RemoveAll(filepath.Dir(files[0])) },
		"names swapped": func(files []string) error {
			for i := 0; i+1 < len(files); i += 2 {
				a, b := files[i], files[i+1]
				if err := errors.Join(os.Rename(a, a+".x"), os.Rename(b, a), os.Rename(a+".x", b)); err != nil {
					return err
				}
			}
			return nil
		},
		"strangers beside them": func(files []string) error {
			for _, name := range []string{".hidden", "tmp", "a name with spaces", "0", "..data", "\xff\xfe"} {
				if err := write(filepath.Join(filepath.Dir(files[0]), name), []byte("x")); err != nil {
					return err
				}
			}
			return os.Mkdir(filepath.Join(filepath.Dir(files[0]), "lost+found"), 0o700)
		},
	}
}

// TestDamagedFiles: whatever became of the files of a cache, promwarp starts and its answers are right.
func TestDamagedFiles(t *testing.T) {
	r := newRestarts(t, time.Now().Truncate(time.Minute), 6)
	whole := t.TempDir()
	r.fill(t, whole)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, damage := range damages(rand.New(rand.NewPCG(seed, 0))) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			require.NoError(t, damage(filesOf(t, dir)))
			pw := r.start(t, dir)
			r.right(t, pw)
			t.Logf("%.0f bad files, %.0f tiles from disk", gauge(t, pw, "promwarp_cache_disk_bad_files_total"), gauge(t, pw, "promwarp_cache_disk_restored_tiles_total"))
		})
	}
}

// TestKilled: a promwarp that is killed while it answers and writes leaves a cache that is right.
func TestKilled(t *testing.T) {
	r := newRestarts(t, time.Now().Truncate(time.Minute), 6)
	dir := t.TempDir()
	for range 6 {
		pw := r.start(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for g := r.grid; ctx.Err() == nil; g.start = g.start.Add(-time.Hour) {
					for q := range r.want {
						_, _ = post(ctx, pw.URL, rangePath, g.rangeForm(fmt.Sprintf("%s + %d", q, i)))
					}
				}
			})
		}
		time.Sleep(rand.N(700 * time.Millisecond))
		pw.Kill()
		cancel()
		all.Wait()
	}
	pw := r.start(t, dir)
	r.right(t, pw)
	require.Zero(t, gauge(t, pw, "promwarp_cache_disk_bad_files_total"))
}

// TestBadDisks: on a disk that is full or takes no writes promwarp answers right, and a metric says so.
func TestBadDisks(t *testing.T) {
	r := newRestarts(t, time.Now().Truncate(time.Minute), 6)
	for name, size := range map[string]string{"full": "64k", "read-only": "256m"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
				t.Skipf("NOT TESTED: a file system of its own cannot be mounted: %s %v", out, err)
			}
			t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
			if name == "read-only" {
				r.fill(t, dir)
				if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
					t.Skipf("NOT TESTED: it cannot be made read-only: %s %v", out, err)
				}
			}
			pw := r.start(t, dir)
			r.right(t, pw)
			if name == "full" {
				require.Eventually(t, func() bool { return gauge(t, pw, "promwarp_cache_disk_failing") == 1 }, 10*time.Second, 50*time.Millisecond)
				r.right(t, pw)
			}
		})
	}
}

// TestFutureData: of a Prometheus whose data goes on for six hours from now, as one has whose clock is
// ahead, the answers are right before and after a restart.
func TestFutureData(t *testing.T) {
	r := newRestarts(t, time.Now().Truncate(time.Minute).Add(6*time.Hour), 9)
	dir := t.TempDir()
	r.fill(t, dir)
	r.right(t, r.start(t, dir))
}

// TestFarTimes: times that a broken clock or client asks for are answered as by Prometheus, and today is
// answered as before.
func TestFarTimes(t *testing.T) {
	r := newRestarts(t, time.Now().Truncate(time.Minute), 6)
	pw := r.start(t, t.TempDir())
	compare := func(path string, form url.Values) {
		requireSame(t, ask(t, r.up.URL, path, form), ask(t, pw.URL, path, form), false, form.Encode())
	}
	for _, at := range []string{
		"0", "-1", "1", "253402300799", "9223372036854775.807", "-9223372036854775.808", "292277025-08-18T07:12:54.999999999Z",
		"4102444800", "-62135596800", "NaN", "Inf", "1e308", "9223372036854775", "1970-01-01T00:00:00Z",
	} {
		for _, q := range []string{"sum(up)", "sum(rate(up[5m] offset -100y))", "sum(up @ 9223372036854775)", "count(up[1000y])", "sum(max_over_time(up[10y:1h]))"} {
			compare(queryPath, url.Values{"query": {q}, "time": {at}, "timeout": {"10s"}})
		}
		compare(rangePath, url.Values{"query": {"sum(up)"}, "start": {at}, "end": {at}, "step": {"60"}})
		compare(rangePath, url.Values{"query": {"sum(up)"}, "start": {"0"}, "end": {at}, "step": {"1e9"}})
		compare(rangePath, url.Values{"query": {"sum(up)"}, "start": {at}, "end": {"9223372036854775"}, "step": {"9e9"}})
	}
	r.right(t, pw)
}

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
	pw := promwarp(t, up.URL)
	const q = `sum by (job) (rate(http_requests_total[5m]))`
	want := ask(t, up.URL, rangePath, g.rangeForm(q))
	require.Equal(t, http.StatusOK, want.code)
	require.NotContains(t, string(want.body), `"result":[]`)
	requireSame(t, want, ask(t, pw.URL, rangePath, g.rangeForm(q)), false, "before")

	up.Kill()
	for range 3 {
		a := ask(t, pw.URL, rangePath, g.rangeForm(`sum by (type) (node_memory_bytes)`))
		require.NotEqual(t, http.StatusOK, a.code, "an answer without an upstream: %s", a.body)
		r, err := a.parse()
		require.NoError(t, err)
		require.Equal(t, "error", r.Status)
		require.NotEmpty(t, r.ErrorType)
		require.Contains(t, r.Error, "refused", "the cause")
		require.Contains(t, r.Error, addr, "which server")
	}
	// What needs no upstream still works.
	a := ask(t, pw.URL, queryPath, instantForm("1 + 1", g.end))
	require.Equal(t, http.StatusOK, a.code)

	prometheus(t, addr, dir, "")
	requireSame(t, want, ask(t, pw.URL, rangePath, g.rangeForm(q)), false, "after")
	form := g.rangeForm(`sum by (type) (node_memory_bytes)`)
	requireSame(t, ask(t, up.URL, rangePath, form), ask(t, pw.URL, rangePath, form), false, "what had failed")
}

// An upstream that dies while it answers never leads to half an answer.
func TestUpstreamDiesWhileAnswering(t *testing.T) {
	g := smallGrid(3)
	addr := mustFreeAddr(t)
	up := prometheus(t, addr, smallData(t, g.end, 3), "")
	for _, limit := range []int64{0, 100, 5_000, 50_000} {
		proxy := newProxy(t, up.URL)
		pw := promwarp(t, proxy.url)
		form := g.rangeForm(`sum by (job) (rate(http_requests_total[5m]))`)
		for range 2 {
			proxy.cutReadsAfter(limit)
			a := ask(t, pw.URL, rangePath, form)
			require.NotEqual(t, http.StatusOK, a.code, "an answer after %d bytes: %.200s", limit, a.body)
			r, err := a.parse()
			require.NoError(t, err)
			require.NotEmpty(t, r.Error)
		}
		proxy.cutReadsAfter(-1)
		requireSame(t, ask(t, up.URL, rangePath, form), ask(t, pw.URL, rangePath, form), false, "afterwards")
	}
}

// proxy stands between promwarp and its upstream and makes remote reads go
// wrong.
type proxy struct {
	url string

	mu   sync.Mutex
	left int64 // bytes of answers still let through; negative lets all through
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	p := &proxy{left: -1}
	forward := httputil.NewSingleHostReverseProxy(u)
	forward.FlushInterval = -1
	forward.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/v1/read") {
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
