package cache

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
)

// hanging is a directory in which operations wait.
type hanging struct {
	disk.Directory
	created chan struct{} // gets one element for each file that is created; nil for none
	create  chan struct{} // Create waits until it is closed
	read    chan struct{} // Open waits until it is closed; nil does not
	opened  atomic.Int64  // how often Open waited
}

func (h *hanging) Create(name string) (io.WriteCloser, error) {
	if h.create != nil {
		h.created <- struct{}{}
		<-h.create
	}
	return h.Directory.Create(name)
}

func (h *hanging) Open(name string) (disk.ReadAtCloser, int64, error) {
	if h.read != nil {
		h.opened.Add(1)
		<-h.read
	}
	return h.Directory.Open(name)
}

// cacheIn returns a cache with files in d.
func cacheIn(t *testing.T, up Upstream, d disk.Directory, grace time.Duration) *Cache {
	store, err := disk.Open(disk.Options{Limit: 1 << 30, Files: d})
	require.NoError(t, err)
	return New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now), Disk: store, saveGrace: grace})
}

// TestCloseWritesTheRest: what is still to be written when the cache is closed is, if there is time.
func TestCloseWritesTheRest(t *testing.T) {
	d := &hanging{Directory: disk.OS(t.TempDir()), create: make(chan struct{}), created: make(chan struct{}, 100)}
	c := cacheIn(t, newMinutely(t, 3), d, time.Hour)
	for i := range 10 {
		query(t, c, 80*hour, 82*hour, fmt.Sprint("m", i))
	}
	landed(t, c)
	<-d.created // it is at the first file
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	close(d.create)
	require.NoError(t, <-closed)
	require.Equal(t, 10, c.disk.Stats().Files)
	require.Zero(t, c.saver.Left())
}

// TestWritingEnds: a write whose time is up leaves no file.
func TestWritingEnds(t *testing.T) {
	d := &hanging{Directory: disk.OS(t.TempDir()), create: make(chan struct{}), created: make(chan struct{}, 100)}
	c := cacheIn(t, newMinutely(t, 3), d, time.Nanosecond)
	query(t, c, 80*hour, 82*hour, "m")
	landed(t, c)
	<-d.created
	ctx, cancel := context.WithCancel(t.Context())
	entry := c.entries[matching.Key(named("m"))]
	var wrote bool
	var all sync.WaitGroup
	all.Go(func() { wrote, _ = c.write(ctx, entry.key) })
	cancel()
	close(d.create)
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
	c := cacheIn(t, up, disk.OS(path), time.Hour)
	query(t, c, 80*hour, 82*hour, "m")
	landed(t, c)
	require.NoError(t, c.Close())
	up.asked()

	d := &hanging{Directory: disk.OS(path)}
	c = cacheIn(t, up, d, time.Hour)
	d.read = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, _, err := c.get(ctx, 80*hour, 82*hour-1, named("m")); err != context.Canceled {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return d.opened.Load() == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	all.Wait() // although the disk hangs
	close(d.read)
	landed(t, c)
	requireMinutely(t, query(t, c, 80*hour, 82*hour-1, "m"), 3, 80*hour, 82*hour-1)
	require.Empty(t, up.asked())
	require.NoError(t, c.Close())
}

// TestLoadEnds: reading files ends with its context, and removes none.
func TestLoadEnds(t *testing.T) {
	path := t.TempDir()
	c := cacheIn(t, newMinutely(t, 3), disk.OS(path), time.Hour)
	query(t, c, 80*hour, 82*hour, "m")
	landed(t, c)
	require.NoError(t, c.Close())

	d := &hanging{Directory: disk.OS(path)}
	c = cacheIn(t, newMinutely(t, 3), d, time.Hour)
	d.read = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan error)
	go func() {
		key := matching.Key(named("m"))
		_, err := c.disk.Load(ctx, key, c.disk.Files(key)[0].Seq, 80*hour, 82*hour)
		loaded <- err
	}()
	require.Eventually(t, func() bool { return d.opened.Load() == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	close(d.read)
	require.ErrorIs(t, <-loaded, context.Canceled)
	require.Zero(t, c.disk.Stats().Bad)
	require.Equal(t, 1, c.disk.Stats().Files)
	require.NoError(t, c.Close())
}

// TestCloseEndsPrefetching: what is being fetched ahead ends at once when the cache is closed,
// however long the upstream takes.
func TestCloseEndsPrefetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newMinutely(t, 3)
		var hangs atomic.Bool
		var inside atomic.Int64
		up := &fake{fetch: func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
			if hangs.Load() {
				inside.Add(1)
				defer inside.Add(-1)
				<-ctx.Done()
				return nil, nil, ctx.Err()
			}
			return inner.fetch(ctx, mint, maxt)
		}}
		start := time.Now()
		c := New(up, Options{
			HostBytes: DefaultHostBytes, Tile: 20 * time.Minute, Now: func() time.Time { return time.UnixMilli(now).Add(time.Since(start)) },
			Prefetch: Budget{Requests: 1},
		})
		for range 5 {
			end := c.now().UnixMilli()
			query(t, c, end-6*hour, end, "m")
			time.Sleep(5 * time.Minute)
		}
		hangs.Store(true)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, inside.Load())
		closing := time.Now()
		require.NoError(t, c.Close())
		require.Zero(t, time.Since(closing))
		require.Zero(t, inside.Load())
	})
}
