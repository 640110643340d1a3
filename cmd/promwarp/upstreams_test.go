package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cache"
)

func TestStoreKeys(t *testing.T) {
	s := load(t, "--config.file="+writeFile(t, `
remote_read:
- url: http://p/api/v1/read
  on_failure: warn
  retention: 15d
  out_of_order_window: 1h
- name: long
  url: http://q/custom
  api_url: http://q/prometheus
  fresh: 0s
  recheck: 1m
  max_age: 30d
  read_recent: true
upstream: {retention: 1y}
cache: {host_bytes: 3GiB, decoded_bytes: 1GiB, disk_bytes: 8GiB, path: kept, fresh: 5m}
`))
	require.NoError(t, s.validate())
	keys, optional, err := storeKeys(s, nil)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, optional)
	p, q := keys[0], keys[1]
	require.Equal(t, "http://p/api/v1/read", p.name)
	require.Equal(t, "long", q.name)
	require.Equal(t, "http://p", p.from.base.String())
	require.Equal(t, "http://q/prometheus", q.from.base.String())
	require.Equal(t, model.Duration(15*24*time.Hour), p.fetch.Retention)
	require.Equal(t, model.Duration(365*24*time.Hour), q.fetch.Retention)
	require.Equal(t, model.Duration(5*time.Minute), p.cache.Fresh)
	require.Zero(t, q.cache.Fresh)
	require.Equal(t, model.Duration(cache.DefaultRecheck), p.cache.Recheck)
	require.Equal(t, model.Duration(time.Minute), q.cache.Recheck)
	require.Equal(t, model.Duration(time.Hour), p.cache.OutOfOrderWindow)
	require.Zero(t, q.cache.OutOfOrderWindow)
	require.Equal(t, model.Duration(24*time.Hour), p.cache.MaxAge)
	require.Equal(t, model.Duration(30*24*time.Hour), q.cache.MaxAge)
	for _, k := range keys {
		require.Equal(t, byteSize(1<<30), k.cache.HostBytes-k.cache.decoded(), "they share what there is")
		require.Equal(t, byteSize(4<<30), k.cache.DiskBytes)
		require.Equal(t, s.Cache.Path, filepath.Dir(k.cache.Path))
	}
	require.NotEqual(t, p.cache.Path, q.cache.Path)
	require.Equal(t, byteSize(1<<30), s.Cache.decoded())

	// One has all of it, and the directory itself.
	s.RemoteRead = s.RemoteRead[:1]
	keys, _, err = storeKeys(s, nil)
	require.NoError(t, err)
	require.Empty(t, keys[0].name)
	require.Zero(t, keys[0].cache.ResultsBytes, "stores are the same with any memory for results")
	s.Cache.ResultsBytes = 0
	require.Equal(t, s.Cache, func() cacheSettings { c := keys[0].cache; c.OutOfOrderWindow = 0; return c }())
}

// flakyProxy forwards to a server unless it is down.
type flakyProxy struct {
	*httptest.Server
	down  atomic.Bool
	reads atomic.Int64
}

func newFlakyProxy(to http.Handler) *flakyProxy {
	p := &flakyProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == readPath {
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
	defer goleak.VerifyNone(t)
	var proxies []*flakyProxy
	for range 2 {
		set := quickSettings()
		set.TSDB.Path = dataDir(t)
		s, stop := runServer(t, serverConfig{Settings: set})
		defer func() { require.NoError(t, stop()) }()
		proxies = append(proxies, newFlakyProxy(s))
		defer proxies[len(proxies)-1].Close()
	}
	kept := filepath.Join(t.TempDir(), "kept")
	file := writeFile(t, "")
	configure := func(onFailure string) {
		text := fmt.Sprintf("web: {listen_address: '127.0.0.1:0', enable_admin_api: true, enable_lifecycle: true}\ncache: {host_bytes: 8MiB, path: %s}\nremote_read:\n", kept)
		for i, p := range proxies {
			text += fmt.Sprintf("- {name: up%d, url: '%s%s', on_failure: %s}\n", i, p.URL, readPath, []string{"error", onFailure}[i])
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	}
	configure("warn")
	f := parseFlags(t, "--config.file="+file)
	start := func() (*server, func() error) {
		set, err := f.load()
		require.NoError(t, err)
		return runServer(t, serverConfig{Settings: set, Reload: f.load})
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
	third, stopThird := runServer(t, serverConfig{Settings: reader})
	code, body = fetch(t, "GET", third.URL()+query)
	require.Equal(t, 502, code, body)
	require.Contains(t, body, "down for a test")

	// Whole as soon as it is up, with nothing of the partial answers left.
	proxies[1].down.Store(false)
	for _, at := range []*server{s, third} {
		code, body = fetch(t, "GET", at.URL()+query)
		require.Equal(t, 200, code)
		require.Contains(t, body, `[600,"0.05"]`)
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
	stores := s.current.Load().reads.stores
	configure("error")
	code, _ = fetch(t, "POST", s.URL()+"/-/reload")
	require.Equal(t, 200, code)
	require.Equal(t, stores, s.current.Load().reads.stores)
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
	require.NoError(t, stop())
}
