package backend

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
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
	keys, optional, err := storeKeys(s, nil)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, optional)
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
	keys, _, err = storeKeys(s, nil)
	require.NoError(t, err)
	require.Empty(t, keys[0].name)
	require.Zero(t, keys[0].cache.ResultsBytes, "stores are the same with any memory for results")
	s.Cache.ResultsBytes = 0
	require.Equal(t, s.Cache, func() config.CacheSettings { c := keys[0].cache; c.OutOfOrderWindow = 0; return c }())
}
