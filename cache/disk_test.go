package cache

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/selection"
)

// onDisk opens a cache with a disk at path, before whose operations before is called. It is closed when
// the test ends, if it was not before.
func onDisk(t testing.TB, up Upstream, path string, o Options, before ...func(string) error) *Cache {
	t.Helper()
	store, err := disk.Open(disk.Options{Path: path, Limit: 1 << 30, Logger: o.Logger, Before: append(before, nil)[0]})
	require.NoError(t, err)
	if o.HostBytes == 0 {
		o.HostBytes = DefaultHostBytes
	}
	if o.Now == nil {
		o.Now = at(now)
	}
	o.Tile, o.Disk, o.saveGrace = testTile, store, cmp.Or(o.saveGrace, time.Hour)
	c := New(up, o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// What a cache says of its disk.
func TestDiskMetrics(t *testing.T) {
	path := t.TempDir()
	up := newMinutely(t, 3)
	c := onDisk(t, up, path, Options{})
	query(t, c, 80*hour, now, "m")
	query(t, c, 80*hour, 82*hour, "other")
	require.NoError(t, c.Close())
	requireMinutely(t, query(t, c, 80*hour, now, "m"), 3, 80*hour, now) // it still answers
	reg := prometheus.NewPedanticRegistry()
	c = onDisk(t, up, path, Options{Registerer: reg})
	var qs selection.Stats
	_, _, err := c.counted(t.Context(), &qs, 80*hour, horizon-1, named("m"))
	require.NoError(t, err)
	require.EqualValues(t, 10, qs.TilesHit.Load())
	require.EqualValues(t, 10, qs.TilesRead.Load())
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP promwarp_cache_disk_failing Whether the last write failed, so that samples are kept in memory only.
# TYPE promwarp_cache_disk_failing gauge
promwarp_cache_disk_failing 0
# HELP promwarp_cache_disk_entries Selectors of which there are files.
# TYPE promwarp_cache_disk_entries gauge
promwarp_cache_disk_entries 2
# HELP promwarp_cache_disk_restored_tiles_total Tiles read from disk.
# TYPE promwarp_cache_disk_restored_tiles_total counter
promwarp_cache_disk_restored_tiles_total 10
`), "promwarp_cache_disk_failing", "promwarp_cache_disk_entries", "promwarp_cache_disk_restored_tiles_total"))
}

// A dashboard that moves on leaves few files.
func TestFilesAreMerged(t *testing.T) {
	up := newMinutely(t, 2)
	path := t.TempDir()
	var clock atomic.Int64
	clock.Store(now)
	o := Options{MaxAge: 10 * 24 * time.Hour, Now: func() time.Time { return time.UnixMilli(clock.Load()) }}
	c := onDisk(t, up, path, o)
	most := 0
	for range 60 {
		query(t, c, 90*hour, clock.Load(), "m")
		most = max(most, len(c.disk.Files(matching.Key(named("m")))))
		clock.Add(2 * hour)
		// Until the saver has seen it.
		require.Eventually(t, func() bool {
			c.files.Lock()
			defer c.files.Unlock()
			return c.saver.Left() == 0
		}, 10*time.Second, time.Microsecond)
	}
	require.LessOrEqual(t, most, 8)
	require.NoError(t, c.Close())
	c = onDisk(t, up, path, o)
	up.asked()
	requireMinutely(t, query(t, c, 90*hour, 218*hour-1, "m"), 2, 90*hour, 218*hour-1)
	require.Empty(t, up.asked())
}

// A disk that cannot be written to degrades to memory, is said once, and is
// used again when it can be.
func TestDiskFails(t *testing.T) {
	up := newMinutely(t, 2)
	path := filepath.Join(t.TempDir(), "cache")
	var log testlog.Log
	o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), saveRetry: time.Millisecond}
	c := onDisk(t, up, path, o)
	require.NoError(t, os.RemoveAll(path))
	for i := range 3 {
		name := fmt.Sprint("m", i)
		requireMinutely(t, query(t, c, 80*hour, 90*hour-1, name), 2, 80*hour, 90*hour-1)
		up.asked()
		require.Eventually(t, c.saver.Failing, 10*time.Second, time.Millisecond)
		requireMinutely(t, query(t, c, 80*hour, 90*hour-1, name), 2, 80*hour, 90*hour-1)
		require.Empty(t, up.asked(), "it is in memory")
	}
	require.Eventually(t, func() bool { return counted(c.metrics.unsaved) > 5 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, log.Count("Cannot write to cache.path"))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.Eventually(t, func() bool { return c.disk.Stats().Selectors == 3 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, log.Count("Writing to cache.path works again"))
	require.NoError(t, c.Close())
	c = onDisk(t, up, path, o)
	for i := range 3 {
		requireMinutely(t, query(t, c, 80*hour, 90*hour-1, fmt.Sprint("m", i)), 2, 80*hour, 90*hour-1)
	}
	require.Empty(t, up.asked())

	// To close it while it fails does not wait.
	require.NoError(t, os.RemoveAll(path))
	query(t, c, 80*hour, 90*hour-1, "m3")
	require.Eventually(t, c.saver.Failing, 10*time.Second, time.Millisecond)
	require.NoError(t, c.Close())
}

// A corrupt chunk that was written to disk is not read from there for ever.
func TestCorruptChunkOnDisk(t *testing.T) {
	corrupt := true
	up := corruptWhile(t, &corrupt)
	path := t.TempDir()
	c := onDisk(t, up, path, Options{})
	ask := func() error {
		q, err := selection.Storage{Source: c}.Querier(80*hour, 84*hour-1)
		require.NoError(t, err)
		defer q.Close()
		set := q.Select(t.Context(), false, nil, named("m")...)
		require.True(t, set.Next())
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
		}
		return it.Err()
	}
	_, _, err := c.get(t.Context(), 80*hour, 84*hour-1, named("m")) // does not decode it
	require.NoError(t, err)
	require.NoError(t, c.Close())
	c = onDisk(t, up, path, Options{})
	up.asked()
	require.Error(t, ask())
	require.Empty(t, up.asked(), "it was on disk")
	require.Eventually(t, func() bool { return c.disk.Stats().Selectors == 0 }, 10*time.Second, time.Millisecond)
	corrupt = false
	require.NoError(t, ask())
	require.Len(t, up.asked(), 1)
}

// What turns out to be corrupt while it is written gets no file, not for a moment.
func TestCorruptWhileItIsWritten(t *testing.T) {
	for _, when := range []string{"create", "write", "close"} {
		var c *Cache
		ready, found, after := make(chan struct{}), false, []string(nil) // operations since it was found out
		c = onDisk(t, newMinutely(t, 3), t.TempDir(), Options{}, func(operation string) error {
			if found {
				after = append(after, operation)
			} else if operation == when {
				<-ready // the query has come back
				c.discard(c.entries[matching.Key(named("m"))])
				found = true
			}
			return nil
		})
		query(t, c, 80*hour, 82*hour, "m")
		close(ready)
		require.Eventually(t, func() bool {
			c.files.Lock()
			defer c.files.Unlock()
			return c.saver.Left() == 0 && found
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, c.Close())
		require.NotContains(t, after, "rename", when)
		require.Empty(t, c.disk.Keys(), when)
	}
}

// A file that is cut, or that the disk does not give back, at whatever time, costs a fetch.
func TestFilesFail(t *testing.T) {
	const from, to = 60 * hour, 90 * hour
	unreadable := func(*testing.T, string) error { return syscall.EIO }
	cut := func(t *testing.T, path string) error {
		names, err := filepath.Glob(filepath.Join(path, "*.tiles"))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			require.NoError(t, os.Truncate(name, 100))
		}
		return nil
	}
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, path string) error
		at    string // the operation that it happens at; at once if empty
		held  bool   // whether a query has read the file before, and still uses what it got
	}{
		{"cut while a query uses what was read of it", cut, "", true},
		{"cut before it is read", cut, "", false},
		{"cut while it is read", cut, "read", false},
		{"read errors", unreadable, "read", false},
		{"read errors while a query uses what was read of it", unreadable, "read", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, spoilt := t.TempDir(), atomic.Bool{}
			up := newMinutely(t, 100)
			before := func(operation string) error {
				if operation == test.at && spoilt.Load() {
					return test.spoil(t, path)
				}
				return nil
			}
			c := onDisk(t, up, path, Options{}, before)
			query(t, c, from, to-1, "m")
			require.NoError(t, c.Close())
			c = onDisk(t, up, path, Options{}, before)
			defer func() { require.NoError(t, c.Close()) }()
			up.asked()
			q, err := selection.Storage{Source: c}.Querier(from, from+10*hour-1)
			require.NoError(t, err)
			defer q.Close()
			held := func() map[string][]sample {
				got, _ := read(t, q.Select(t.Context(), true, nil, named("m")...))
				return got
			}
			if test.held {
				requireMinutely(t, held(), 100, from, from+10*hour-1)
			}
			if spoilt.Store(true); test.at == "" {
				require.NoError(t, test.spoil(t, path))
			}
			if test.held {
				requireMinutely(t, held(), 100, from, from+10*hour-1)
				require.Empty(t, up.asked())
			}
			requireMinutely(t, query(t, c, from, to-1, "m"), 100, from, to-1)
			require.NotEmpty(t, up.asked())
			require.EqualValues(t, 1, c.disk.Stats().Bad)
			spoilt.Store(false)
			require.Eventually(t, func() bool { return c.disk.Stats().Files == 1 }, 10*time.Second, time.Millisecond)
			requireMinutely(t, query(t, c, from, to-1, "m"), 100, from, to-1)
			require.Empty(t, up.asked())
		})
	}
}

// A process without memory for what is on disk neither reads it nor drops it, and says so.
func TestRestoreWithoutMemory(t *testing.T) {
	path := t.TempDir()
	up := newMinutely(t, 100)
	c := onDisk(t, up, path, Options{})
	query(t, c, 60*hour, 90*hour-1, "m")
	require.NoError(t, c.Close())
	up.asked()
	pool := memory.New(memory.Options{Limit: 64 << 20, Wait: time.Millisecond})
	store, err := disk.Open(disk.Options{Path: path, Limit: 1 << 30, Memory: pool})
	require.NoError(t, err)
	c = New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Disk: store, Now: at(now)})
	defer func() { require.NoError(t, c.Close()) }()
	pool.Count(memory.Evaluation, 60<<20)
	_, _, err = c.get(t.Context(), 60*hour, 90*hour-1, named("m"))
	require.True(t, memory.Exhausted(err), err)
	require.Empty(t, up.asked())
	pool.Count(memory.Evaluation, -60<<20)
	requireMinutely(t, query(t, c, 60*hour, 90*hour-1, "m"), 100, 60*hour, 90*hour-1)
	require.Empty(t, up.asked())
	require.Zero(t, c.disk.Stats().Bad)
}

// Of a large file a query keeps in memory what it asked for.
func TestRestorePart(t *testing.T) {
	path := t.TempDir()
	up := newMinutely(t, 300)
	c := onDisk(t, up, path, Options{})
	query(t, c, 0, 90*hour-1, "m")
	whole := c.Stats().Bytes
	require.NoError(t, c.Close())
	c = onDisk(t, up, path, Options{})
	up.asked()
	for from := int64(0); from < 90*hour; from += 30 * hour {
		requireMinutely(t, query(t, c, from+5*hour, from+6*hour-1, "m"), 300, from+5*hour, from+6*hour-1)
	}
	require.Less(t, c.Stats().Bytes, whole/5)
	requireMinutely(t, query(t, c, 0, 90*hour-1, "m"), 300, 0, 90*hour-1)
	require.Empty(t, up.asked())
	require.Less(t, c.Stats().Bytes, whole*5/4)
}

// A drop fails as long as there are files that should have gone before: what is in
// them would come back.
func TestDropAfterFailedRemoval(t *testing.T) {
	path := t.TempDir()
	files := &mortal{}
	files.left.Store(1 << 30)
	store, err := disk.Open(disk.Options{Limit: 1 << 30, Path: path, Before: files.before})
	require.NoError(t, err)
	c := New(newMinutely(t, 3), Options{HostBytes: DefaultHostBytes, Tile: testTile, Disk: store, Now: at(now)})
	defer func() { _ = c.Close() }()
	query(t, c, 80*hour, 90*hour, "m")
	require.Eventually(t, func() bool { return len(store.Keys()) > 0 }, 10*time.Second, time.Millisecond)
	had, err := filepath.Glob(filepath.Join(path, "*.tiles"))
	require.NoError(t, err)
	require.NotEmpty(t, had)
	files.left.Store(0)
	for range 2 { // the second time there is nothing to be dropped any more
		_, err = c.Drop(80*hour, 85*hour)
		require.ErrorContains(t, err, "could not be removed")
		require.Empty(t, store.Keys())
	}
	files.left.Store(1 << 30)
	_, err = c.Drop(80*hour, 85*hour)
	require.NoError(t, err)
	names, err := filepath.Glob(filepath.Join(path, "*.tiles"))
	require.NoError(t, err)
	for _, name := range had { // what was not dropped may be in another by now
		require.NotContains(t, names, name)
	}
	require.NoError(t, c.Close())
	store, err = disk.Open(disk.Options{Limit: 1 << 30, Path: path})
	require.NoError(t, err)
	up := newMinutely(t, 3)
	again := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Disk: store, Now: at(now)})
	defer func() { _ = again.Close() }()
	query(t, again, 80*hour, 85*hour-1, "m")
	require.NotEmpty(t, up.asked(), "nothing of it came back")
}

// waiting has one operation wait until it is told to go on. It gives one element for each that waits.
func waiting(operation string) (before func(string) error, begun chan struct{}, proceed chan struct{}) {
	begun, proceed = make(chan struct{}, 100), make(chan struct{})
	return func(o string) error {
		if o == operation {
			begun <- struct{}{}
			<-proceed
		}
		return nil
	}, begun, proceed
}

// TestCloseWritesTheRest: what is still to be written when the cache is closed is, if there is time.
func TestCloseWritesTheRest(t *testing.T) {
	before, created, create := waiting("create")
	c := onDisk(t, newMinutely(t, 3), t.TempDir(), Options{}, before)
	for i := range 10 {
		query(t, c, 80*hour, 82*hour, fmt.Sprint("m", i))
	}
	landed(t, c)
	<-created // it is at the first file
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	close(create)
	require.NoError(t, <-closed)
	require.Equal(t, 10, c.disk.Stats().Files)
	require.Zero(t, c.saver.Left())
}

// TestWritingEnds: a write whose time is up leaves no file.
func TestWritingEnds(t *testing.T) {
	before, created, create := waiting("create")
	c := onDisk(t, newMinutely(t, 3), t.TempDir(), Options{saveGrace: time.Nanosecond}, before)
	query(t, c, 80*hour, 82*hour, "m")
	landed(t, c)
	<-created
	ctx, cancel := context.WithCancel(t.Context())
	entry := c.entries[matching.Key(named("m"))]
	var wrote bool
	var all sync.WaitGroup
	all.Go(func() { wrote, _ = c.write(ctx, entry.key) })
	cancel()
	close(create)
	all.Wait()
	require.False(t, wrote)
	require.NoError(t, c.Close())
	require.LessOrEqual(t, c.disk.Stats().Files, 1, "the saver's own")
}

// TestSlowDiskHoldsUpNoQuery: a query that waits for what is read from disk leaves when its
// time is up, even if the disk hangs. What the read was for is read by the next.
func TestSlowDiskHoldsUpNoQuery(t *testing.T) {
	path := t.TempDir()
	up := newMinutely(t, 3)
	c := onDisk(t, up, path, Options{})
	query(t, c, 80*hour, 82*hour, "m")
	landed(t, c)
	require.NoError(t, c.Close())
	up.asked()

	before, begun, proceed := waiting("read")
	c = onDisk(t, up, path, Options{}, before)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, _, err := c.get(ctx, 80*hour, 82*hour-1, named("m")); err != context.Canceled {
				t.Error(err)
			}
		})
	}
	<-begun
	cancel()
	all.Wait() // although the disk hangs
	require.Empty(t, begun, "one reads for all")
	close(proceed)
	landed(t, c)
	requireMinutely(t, query(t, c, 80*hour, 82*hour-1, "m"), 3, 80*hour, 82*hour-1)
	require.Empty(t, up.asked())
	require.NoError(t, c.Close())
}

// TestLoadEnds: reading files ends with its context, and removes none.
func TestLoadEnds(t *testing.T) {
	path := t.TempDir()
	c := onDisk(t, newMinutely(t, 3), path, Options{})
	query(t, c, 80*hour, 82*hour, "m")
	landed(t, c)
	require.NoError(t, c.Close())

	before, begun, proceed := waiting("read")
	c = onDisk(t, newMinutely(t, 3), path, Options{}, before)
	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan error)
	go func() {
		key := matching.Key(named("m"))
		_, err := c.disk.Load(ctx, c.disk.Files(key)[0], tile.Span{From: 80 * hour, To: 82 * hour})
		loaded <- err
	}()
	<-begun
	cancel()
	close(proceed)
	require.ErrorIs(t, <-loaded, context.Canceled)
	require.Zero(t, c.disk.Stats().Bad)
	require.Equal(t, 1, c.disk.Stats().Files)
	require.NoError(t, c.Close())
}
