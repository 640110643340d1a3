package backend

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

func TestStoreKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "promwarp.yml")
	require.NoError(t, os.WriteFile(file, []byte(`
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
`), 0o666))
	flags := config.Flags{File: file}
	s, err := flags.Load()
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	keys, err := storeKeys(s, nil)
	require.NoError(t, err)
	p, q := keys[0], keys[1]
	require.Equal(t, "http://p/api/v1/read", p.name)
	require.Equal(t, "long", q.name)
	require.Equal(t, "http://p", p.From.Base.String())
	require.Equal(t, "http://q/prometheus", q.From.Base.String())
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
		require.Equal(t, config.ByteSize(1<<30), k.cache.HostBytes-k.cache.DecodedBytes, "they share what there is")
		require.Equal(t, config.ByteSize(4<<30), k.cache.DiskBytes)
		require.Equal(t, s.Cache.Path, filepath.Dir(k.cache.Path))
	}
	require.NotEqual(t, p.cache.Path, q.cache.Path)
	require.Equal(t, config.ByteSize(1<<30), s.Cache.DecodedBytes)

	// One has all of it, and the directory itself.
	s.RemoteRead = s.RemoteRead[:1]
	keys, err = storeKeys(s, nil)
	require.NoError(t, err)
	require.Empty(t, keys[0].name)
	require.Zero(t, keys[0].cache.ResultsBytes, "stores are the same with any memory for results")
	s.Cache.ResultsBytes = 0
	require.Equal(t, s.Cache, func() config.CacheSettings { c := keys[0].cache; c.OutOfOrderWindow = 0; return c }())
}

// TestReplicaKeys: replicas are stores of their own with the settings of their entry.
func TestReplicaKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "promwarp.yml")
	require.NoError(t, os.WriteFile(file, []byte(`
remote_read:
- url: http://p/api/v1/read
- name: pair
  replicas: {urls: [http://a/api/v1/read, http://b/api/v1/read], label: replica}
  external_labels: keep
  fresh: 7m
`), 0o666))
	flags := config.Flags{File: file}
	s, err := flags.Load()
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	keys, err := storeKeys(s, nil)
	require.NoError(t, err)
	require.Len(t, keys, 3)
	for i, name := range []string{"http://a/api/v1/read", "http://b/api/v1/read"} {
		k := keys[i+1]
		require.Equal(t, name, k.name)
		require.Equal(t, name, k.From.Remote.URL.String())
		require.Equal(t, 1, k.From.Entry)
		require.Equal(t, model.Duration(7*time.Minute), k.cache.Fresh)
		require.Equal(t, ",replica", k.fetch.ReplicaLabels)
		require.Equal(t, cache.DefaultTile, k.tile)
	}
	s.RemoteRead[1].Replicas.Merge = config.Penalty
	merged, err := storeKeys(s, nil)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{cache.DefaultTile, 2 * time.Hour, 2 * time.Hour}, []time.Duration{merged[0].tile, merged[1].tile, merged[2].tile})
	require.Zero(t, merged[2].cache.Recheck, "a young stretch would end within chunks")
	b := &Backend{Stores: []*Store{{Key: keys[0], name: keys[0].name}, {Key: keys[1], name: keys[1].name}, {Key: keys[2], name: keys[2].name}}}
	b.join(s, keys, nil)
	require.Len(t, b.upstreams, 2)
	require.Equal(t, "pair", b.upstreams[1].name)
	require.Equal(t, b.Stores[1:], b.upstreams[1].stores)
}

// TestActiveFile: a process that is killed leaves its queries to be named by the next, and one that
// has more at once than the file holds waits for none.
func TestActiveFile(t *testing.T) {
	const variable = "PROMWARP_TEST_ACTIVE"
	if dir := os.Getenv(variable); dir != "" {
		file, err := OpenActiveFile(dir, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		ended, err := tracker{1, file}.Insert(t.Context(), "sum(ended)")
		require.NoError(t, err)
		_, err = tracker{1, file}.Insert(t.Context(), "sum(running)")
		require.NoError(t, err)
		tracker{1, file}.Delete(ended)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	dir := t.TempDir()
	killed := exec.Command(os.Args[0], "-test.run=^TestActiveFile$")
	killed.Env = append(os.Environ(), variable+"="+dir)
	require.ErrorContains(t, killed.Run(), "signal: killed")

	var log bytes.Buffer
	file, err := OpenActiveFile(dir, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Contains(t, log.String(), "sum(running)")
	require.NotContains(t, log.String(), "sum(ended)")

	active := tracker{1, file}
	var slots []int
	for range activeSlots + 1 {
		slot, err := active.Insert(t.Context(), "up")
		require.NoError(t, err)
		slots = append(slots, slot)
	}
	require.Equal(t, notListed, slots[activeSlots])
	for _, slot := range slots {
		active.Delete(slot)
	}
	slot, err := active.Insert(t.Context(), "up")
	require.NoError(t, err)
	require.NotEqual(t, notListed, slot)
	require.Equal(t, 7, tracker{7, nil}.GetMaxConcurrent())
	slot, err = tracker{7, nil}.Insert(t.Context(), "up")
	require.NoError(t, err)
	tracker{7, nil}.Delete(slot)
}

func TestStoresOfThanos(t *testing.T) {
	load := func(text string) (config.Settings, error) {
		file := filepath.Join(t.TempDir(), "promwarp.yml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
		flags := config.Flags{File: file}
		return flags.Load()
	}
	s, err := load(`
stores:
- address: a:10901
  on_failure: warn
  retention: 15d
- {name: long, address: "b:10901", tls_config: {ca_file: ca.pem}, headers: {thanos-tenant: x}, remote_timeout: 3s, fresh: 0s}
cache: {path: kept}
`)
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	keys, err := storeKeys(s, nil)
	require.NoError(t, err)
	require.Equal(t, config.WarnQuery, s.Extras(0).OnFailure)
	require.Empty(t, s.Extras(1).OnFailure)
	require.Equal(t, "a:10901", keys[0].name)
	require.True(t, keys[0].From.Store.Partial)
	require.Equal(t, model.Duration(15*24*time.Hour), keys[0].fetch.Retention)
	require.Equal(t, "long", keys[1].name)
	require.Equal(t, "ca.pem", filepath.Base(keys[1].From.Store.TLS.CAFile))
	require.True(t, filepath.IsAbs(keys[1].From.Store.TLS.CAFile))
	require.Equal(t, 3*time.Second, keys[1].From.Store.Timeout)
	require.False(t, keys[1].From.Store.Partial)
	require.Zero(t, keys[1].cache.Fresh)
	require.NotEqual(t, keys[0].cache.Path, keys[1].cache.Path)
	require.ErrorContains(t, Check(s), "stores: entry 2: tls_config: ")
	s, err = load("stores: [{address: 'a:1', max_resolution: 1h}]")
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	require.Equal(t, time.Hour, s.Engine(upstream.Facts{}).Lookback, "as long as samples are apart")
	for text, want := range map[string]string{
		"stores: [{address: 'a:1', max_resolution: 10m}]":                  "max_resolution 10m: write 5m or 1h",
		"stores: [{address: 'a:1', max_resolution: 1h}, {address: 'b:1'}]": "stores: entry 1: max_resolution with several entries",
		"stores: [{name: x}]":                                     "stores: entry 1: it has no address",
		"stores: [{address: a}]":                                  "stores: entry 1: address \"a\": write host and port",
		"stores: [{address: 'a:1'}, {address: 'a:1'}]":            "two entries are called a:1",
		"stores: [{address: 'a:1'}]\nupstream: {url: 'http://p'}": "stores are given beside another source",
		"stores: [{address: 'a:1', headers: {grpc-timeout: 1}}]":  "is gRPC's own",
	} {
		s, err := load(text)
		require.NoError(t, err, text)
		require.ErrorContains(t, s.Validate(), want, text)
	}
	_, err = load("stores: [{adress: 'a:1'}]")
	require.ErrorContains(t, err, `unknown key "adress"; did you mean "address"?`)
	_, err = load("stores: [{on_failur: warn}]")
	require.ErrorContains(t, err, `did you mean "on_failure"?`)
	_, err = load("stores: [null]")
	require.ErrorContains(t, err, "stores entry 1 is empty")
}

// infoStore is a store of Thanos that says what it is, and no more.
type infoStore struct{}

func (infoStore) Info(context.Context, *leafpb.InfoRequest) (*leafpb.InfoResponse, error) {
	return &leafpb.InfoResponse{ComponentType: "sidecar", Store: &leafpb.StoreInfo{MaxTime: math.MaxInt64}}, nil
}

// TestStoresReload: stores come and go with the settings, and nothing of one that is gone runs on. What is no
// store is an error, which leaves nothing behind either.
func TestStoresReload(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	address := func(serve func(*grpc.Server)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s := grpc.NewServer(grpc.ForceServerCodec(leafpb.Codec{}))
		serve(s)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		return l.Addr().String()
	}
	info := func(s *grpc.Server) { leafpb.RegisterInfoServer(s, infoStore{}) }
	a, b, none := address(info), address(info), address(func(*grpc.Server) {})
	open := func(prev *Backend, entries ...string) (*Backend, error) {
		file := filepath.Join(t.TempDir(), "promwarp.yml")
		require.NoError(t, os.WriteFile(file, []byte("stores:\n- "+strings.Join(entries, "\n- ")+"\n"), 0o666))
		flags := config.Flags{File: file}
		s, err := flags.Load()
		require.NoError(t, err)
		require.NoError(t, s.Validate())
		o := Options{Logger: slog.New(slog.DiscardHandler)}
		if prev != nil {
			o.Prev = prev.Stores
		}
		return Open(s, o)
	}
	first, err := open(nil, "address: "+a)
	require.NoError(t, err)
	same, err := open(first, "address: "+a)
	require.NoError(t, err)
	require.Equal(t, first.Stores, same.Stores)
	first.Release()
	both, err := open(same, "address: "+a, "address: "+b)
	require.NoError(t, err)
	require.Len(t, both.Known(), 2)
	require.Contains(t, both.Known()[1], "Thanos sidecar, no external labels")
	same.Release()
	_, err = open(both, "address: "+a, "{address: \""+none+"\", name: wrong}")
	require.ErrorContains(t, err, "stores: entry 2: the store "+none+": gRPC status Unimplemented")
	lower, err := open(both, "{address: \""+a+"\", max_resolution: 5m}")
	require.NoError(t, err)
	require.NotEqual(t, both.Stores[0], lower.Stores[0])
	both.Release()
	lower.Release()
}
