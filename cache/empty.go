package cache

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
)

// mostEmpty is how many stretches an entry notes that have been empty at most.
const mostEmpty = 100

// doubt finds out for how long f is believed, where its answer has no series though its selector
// had samples then or earlier: a store that starts, or has lost sight of its data, may answer
// nothing for a while. Such a stretch is fetched at each look until it has been empty for the
// freshness window, and is kept from then on for as long as it has been empty. So a selector that
// has ended costs a few fetches in a day.
func (c *Cache) doubt(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := f.entry
	known := e.empty.Within(f.old, math.MinInt64)
	e.empty = e.empty.Without(f.old)
	if f.old.Empty() || f.sel.NumSeries() > 0 || !c.hadSamples(e, f.old.To) || len(e.empty) > mostEmpty {
		return
	}
	now, since := c.now().UnixMilli(), int64(math.MinInt64)
	for _, s := range known.All().Missing(f.old) {
		known = known.With(s, now)
	}
	for _, s := range known {
		e.empty = e.empty.Having(s)
		since = max(since, s.At)
	}
	lasted := now - since
	f.doubted = lasted < c.fresh
	if c.maxAge > 0 {
		f.has = tile.Coverage(nil).With(f.old, min(f.has[0].At, now-c.maxAge+lasted))
	}
}

// hadSamples reports whether anything that is kept of e, in memory or on disk, has samples from
// before a time (ms). The cache's mutex must be held.
func (c *Cache) hadSamples(e *entry, before int64) bool {
	if e.sel != nil && tile.Extent(e.sel).From < before {
		return true
	}
	return c.disk != nil && slices.ContainsFunc(c.disk.Files(e.key), func(f disk.File) bool {
		return !f.Empty && f.Covered[0].From < before
	})
}
