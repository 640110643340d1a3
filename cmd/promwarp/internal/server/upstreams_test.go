package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

// flakyProxy forwards to a server unless it is down.
type flakyProxy struct {
	*httptest.Server
	down  atomic.Bool
	reads atomic.Int64
}

func newFlakyProxy(to http.Handler) *flakyProxy {
	p := &flakyProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == config.ReadPath {
			p.reads.Add(1)
		}
		if p.down.Load() {
			http.Error(w, "down for a test", http.StatusBadRequest)
			return
		}
		to.ServeHTTP(w, r)
	}))
	return p
}

// TestSeveralUpstreams has one promwarp read from two others: all doors, with both
// up and with one down, for either setting of on_failure, over a restart and a
// reload.
func TestSeveralUpstreams(t *testing.T) {
	var proxies []*flakyProxy
	for range 2 {
		set := quickSettings()
		set.TSDB.Path = testfiles.DataDirectory(t)
		s, _ := runServer(t, Config{Settings: set})
		proxies = append(proxies, newFlakyProxy(s))
		defer proxies[len(proxies)-1].Close()
	}
	kept := filepath.Join(t.TempDir(), "kept")
	file := testfiles.Config(t, "")
	configure := func(onFailure string) {
		text := fmt.Sprintf("web: {listen_address: '127.0.0.1:0', enable_admin_api: true, enable_lifecycle: true}\ncache: {host_bytes: 8MiB, path: %s}\nremote_read:\n", kept)
		for i, p := range proxies {
			text += fmt.Sprintf("- {name: up%d, url: '%s%s', on_failure: %s}\n", i, p.URL, config.ReadPath, []string{"error", onFailure}[i])
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	}
	configure("warn")
	f := givenFlags(t, "--config.file="+file)
	start := func() (*Server, func() error) {
		set, err := f.Load()
		require.NoError(t, err)
		return runServer(t, Config{Settings: set, Reload: f.Load})
	}
	s, stop := start()
	get := func(path string) (int, string) {
		code, body := fetch(t, "GET", s.URL()+path)
		return code, body
	}
	const query = "/api/v1/query_range?query=sum(rate(m[5m]))&start=600&end=1200&step=600"
	const warning = "partial answer, without anything of the upstream up1: remote read from "

	// Down from the start: partial, and said so by every door.
	proxies[1].down.Store(true)
	for _, path := range []string{query, query + "&executor=prometheus", query + "&executor=cpu&strict=true", "/query?query=sum(m)&time=600"} {
		code, body := get(path)
		require.Equal(t, 200, code, body)
		require.Contains(t, body, warning)
	}
	code, body := get("/api/v1/label/i/values")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"data":["0","1"]`)
	require.Contains(t, body, "without anything of the upstream up1")
	code, body = get("/explain?analyze=true&format=text&query=sum(m)&time=600")
	require.Equal(t, 200, code)
	require.Contains(t, body, "upstream  up0: ")
	require.Contains(t, body, "upstream  up1: ")
	require.Contains(t, body, "  -- "+warning)
	_, body = get("/metrics")
	require.Contains(t, body, `promwarp_partial_selections_total{upstream="up0"} 0`)
	require.Contains(t, body, `promwarp_partial_selections_total{upstream="up1"} 5`)

	// Remote read has no warnings.
	reader := quickSettings()
	reader.Upstream.URL = s.URL()
	third, stopThird := runServer(t, Config{Settings: reader})
	code, body = fetch(t, "GET", third.URL()+query)
	require.Equal(t, 502, code, body)
	require.Contains(t, body, "down for a test")

	// Whole as soon as it is up, with nothing of the partial answers left.
	proxies[1].down.Store(false)
	for _, at := range []*Server{s, third} {
		body = answers(t, at, query, `[600,"0.05"]`)
		require.NotContains(t, body, "warnings")
	}
	require.NoError(t, stopThird())
	code, body = get("/explain?analyze=true&query=sum(rate(m[5m]))&start=600&end=1200&step=600")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"upstreams":[{"name":"up0","cache":{"tiles_kept":`)
	require.NotContains(t, body, "failure")

	// A restart finds both on disk; a reload that changes on_failure keeps both.
	require.NoError(t, stop())
	s, stop = start()
	before := proxies[0].reads.Load() + proxies[1].reads.Load()
	code, body = get(query)
	require.Equal(t, 200, code)
	require.NotContains(t, body, "warnings")
	stores := s.current.Load().reads.Stores
	configure("error")
	code, _ = fetch(t, "POST", s.URL()+"/-/reload")
	require.Equal(t, 200, code)
	require.Equal(t, stores, s.current.Load().reads.Stores)
	_, _ = get(query)
	require.Equal(t, before, proxies[0].reads.Load()+proxies[1].reads.Load())
	_, body = get("/metrics")
	require.Contains(t, body, `promwarp_cache_disk_files{upstream="up1"} `)

	// Dropped, it must be asked again, and now it is needed.
	code, body = fetch(t, "POST", s.URL()+"/api/v1/admin/cache/drop?all=true")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"selectors":2`)
	left := func() (n int) {
		names, err := filepath.Glob(filepath.Join(kept, "upstream-*", "*.tiles"))
		require.NoError(t, err)
		return len(names)
	}
	require.Zero(t, left())
	proxies[1].down.Store(true)
	for path, want := range map[string]string{
		query:            "down for a test",
		"/api/v1/labels": "the upstream up1 failed: its answer with status 4", // whose text may hold secrets
	} {
		code, body = get(path)
		require.GreaterOrEqual(t, code, 400, path)
		require.Contains(t, body, want, path)
	}

	// One that is not read from any more leaves nothing.
	proxies[1].down.Store(false)
	_, _ = get(query)
	require.NoError(t, stop())
	require.Equal(t, 2, left())
	proxies = proxies[:1]
	configure("warn")
	s, stop = start()
	require.Zero(t, left())
	code, body = get(query)
	require.Equal(t, 200, code)
	require.Contains(t, body, `[600,"0.05"]`)
}
