package cache

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
)

// mostEmpty is how many stretches are noted as empty beside a new one at most.
const mostEmpty = 100

// emptiness is what of one selector was found empty though there were samples then or earlier, and when
// it was so first. A store that starts, or has lost sight of its data, may answer nothing for a while.
type emptiness struct{ since tile.Coverage }

// found notes that s was found empty at the given time (ms), or not, and returns for how long all of
// it has been empty, in ms.
func (e *emptiness) found(s tile.Span, empty bool, now int64) (lasted int64) {
	known := e.since.Within(s, math.MinInt64)
	if e.since = e.since.Without(s); !empty {
		return 0
	}
	if len(e.since) > mostEmpty {
		e.since = nil
	}
	for _, rest := range known.All().Missing(s) {
		known = known.With(rest, now)
	}
	since := int64(math.MinInt64)
	for _, one := range known {
		e.since = e.since.Having(one)
		since = max(since, one.At)
	}
	return now - since
}

// doubts reports whether f is not believed, as it has no series though its selector had samples then
// or earlier, and else finds out for how long it is. Such a stretch is fetched at each look until it has been empty for the freshness window,
// and is kept from then on for as long as it has been empty. So a selector that has ended costs a few
// fetches in a day.
func (c *Cache) doubts(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, now := f.entry, c.now().UnixMilli()
	had := e.sel != nil && tile.Extent(e.sel).From < f.old.To
	if c.disk != nil {
		had = had || slices.ContainsFunc(c.disk.Files(e.key), func(d disk.File) bool { return !d.Empty && d.Covered[0].From < f.old.To })
	}
	empty := had && f.sel.NumSeries() == 0 && !f.old.Empty()
	lasted := e.empty.found(f.old, empty, now)
	if empty && c.maxAge > 0 {
		f.has = tile.Coverage(nil).With(f.old, min(f.has[0].At, now-c.maxAge+lasted))
	}
	return empty && lasted < c.fresh
}
