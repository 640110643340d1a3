package cache

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
)

// The newest tile is kept in pieces once fetching all of it with each query would be
// too much. When it is complete it is fetched again, as a whole, and its chunks are
// whole again, too.
func TestGrowingTile(t *testing.T) {
	up := newMinutely(t, 3)
	var clock atomic.Int64 // the cache writes to disk behind our back
	clock.Store(100*hour + 40*minute)
	start := func(path string) *Cache {
		files, err := disk.Open(disk.Options{Path: path, Limit: 1 << 30})
		require.NoError(t, err)
		return New(up, Options{
			HostBytes: DefaultHostBytes, Tile: time.Hour, Step: 10 * time.Minute, Fresh: 30 * time.Minute, Disk: files,
			Now: func() time.Time { return time.UnixMilli(clock.Load()) },
		})
	}
	path := t.TempDir()
	c := start(path)
	for _, look := range []struct {
		name   string
		after  int64 // ms after the look before
		asked  []request
		chunks int // of a series that are kept
	}{
		{"the first", 0, []request{{96 * hour, 100*hour + 40*minute}}, 4},
		{"not too much", 20 * minute, []request{{100 * hour, 101 * hour}}, 4},
		{"a piece", 2 * minute, []request{{100 * hour, 101*hour + 2*minute}}, 5},
		{"nothing new is old enough", 1 * minute, []request{{100*hour + 30*minute, 101*hour + 3*minute}}, 5},
		{"two steps at once", 18 * minute, []request{{100*hour + 30*minute, 101*hour + 21*minute}}, 6},
		{"complete", 9 * minute, []request{{100 * hour, 101*hour + 30*minute}}, 5},
		{"the next one", 35 * minute, []request{{101 * hour, 102*hour + 5*minute}}, 6},
		{"hours later", 3 * hour, []request{{101 * hour, 105*hour + 5*minute}}, 9},
	} {
		now := clock.Add(look.after)
		requireMinutely(t, query(t, c, 96*hour, now, "m"), 3, 96*hour, now)
		require.Equal(t, look.asked, up.asked(), look.name)
		c.mu.Lock()
		e := c.entries[matching.Key(named("m"))]
		require.Len(t, e.sel.Chunks(0), look.chunks, look.name)
		require.Equal(t, tile.Spans{{From: 96 * hour, To: c.moment().Settled.To}}, e.covered.All(), look.name)
		require.Equal(t, tile.Floor(c.moment().Settled.To, hour), e.sel.KeptUntil(), "pieces go again")
		c.mu.Unlock()
	}

	// On disk are whole tiles alone.
	require.NoError(t, c.Close())
	c = start(path)
	defer func() { require.NoError(t, c.Close()) }()
	requireMinutely(t, query(t, c, 96*hour, clock.Load(), "m"), 3, 96*hour, clock.Load())
	require.Equal(t, []request{{104 * hour, clock.Load()}}, up.asked())
}

// Nothing is fetched ahead before a tile is complete.
func TestPrefetchWholeTiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMinutely(t, 1)
		begin := time.Now()
		c := New(up, Options{
			HostBytes: DefaultHostBytes, Tile: 20 * time.Minute, Step: 5 * time.Minute, Prefetch: Prefetch{Requests: 1},
			Now: func() time.Time { return time.UnixMilli(100 * hour).Add(time.Since(begin)) },
		})
		defer func() { require.NoError(t, c.Close()) }()
		for range 5 {
			query(t, c, 97*hour, c.now().UnixMilli(), "m")
			time.Sleep(time.Minute)
		}
		up.asked()
		time.Sleep(time.Hour)
		require.Equal(t, []request{{99*hour + hour*2/3, 100*hour - 1}, {100 * hour, 100*hour + hour/3 - 1}, {100*hour + hour/3, 100*hour + hour*2/3 - 1}}, up.asked())
	})
}
