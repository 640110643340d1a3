package cache

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// entry is what is kept of one selector. Its fields are guarded by the cache's
// mutex.
type entry struct {
	key      string
	matchers []*labels.Matcher
	sel      *selection.Selection // the samples of what is covered; immutable; nil when nothing is
	covered  tile.Coverage        // immutable
	size     int64                // bytes, without notes
	flights  []*flight            // in the air
	used     tile.Coverage        // how much what it was asked for is worth; see tile.UsedAgain
	tail     int64                // how much that it is asked for with the newest samples is worth
	looked   int64                // when it was last, in ms
	asked    uint64               // number of the last use
	held     []*lookup            // of running queries, whose memory would not be free if it were evicted
	empty    emptiness            // what fetches found empty
	drops    uint64               // how often something of it was dropped
	removed  bool                 // no longer in the cache; nothing is to be kept any more
	parent   *entry               // of a wider selector which content was taken from; nil for none
}

// entryBytes is counted for every entry besides its selection: the structures
// around it and its place in the map.
const entryBytes = 512

// sizeOf is the memory that an entry with this content holds, in bytes, without notes. Slabs that
// it shares with others count for each.
func sizeOf(key string, sel *selection.Selection, covered tile.Coverage) int64 {
	return entryBytes + 2*int64(len(key)) + int64(cap(covered))*int64(unsafe.Sizeof(tile.Stretch{})) + sel.SizeBytes()
}

// noted is the memory in bytes of the notes on a selection, or on none. It grows
// while queries use the selection.
func noted(sel *selection.Selection) int64 {
	if sel == nil {
		return 0
	}
	return sel.Notes().SizeBytes()
}

// bytes is the memory that e holds, with notes. The cache's mutex must be held.
func (e *entry) bytes() int64 { return e.size + noted(e.sel) }

// held is the memory in bytes of all that is kept, with the notes on it as they are
// now. The cache's mutex must be held.
func (c *Cache) held() int64 { return c.bytes + c.noted.Load() }

// use returns the entry of a selector, a new one if need be, as the most recently used, and notes
// what a query wants of it. The cache's mutex must be held.
func (c *Cache) use(q *question) *entry {
	e, ok := c.entries[q.key]
	if !ok {
		e = &entry{key: q.key, matchers: slices.Clone(q.matchers)}
		c.entries[q.key] = e
		c.index.Add(e, e.matchers)
	}
	c.uses++
	e.asked = c.uses
	now := q.at.Now
	all := tile.Span{From: q.From, To: min(q.To, now+1)}.Widen(c.tile) // with what is going to be kept
	e.used = e.used.Used(all, now)
	if q.To > q.at.Settled.To {
		e.tail, e.looked = tile.UsedAgain(e.tail, now), now
	}
	return e
}

// set replaces what e holds; a nil selection means nothing. The cache's mutex
// must be held.
func (c *Cache) set(e *entry, sel *selection.Selection, covered tile.Coverage) {
	c.bytes -= e.size
	if sel != nil {
		c.text.Add(sel.TextBytes())
	}
	if e.sel != nil {
		c.text.Add(-e.sel.TextBytes())
		e.sel.Notes().CountIn(nil)
		c.kept--
	}
	c.tiles += covered.All().Tiles(c.tile) - e.covered.All().Tiles(c.tile)
	e.sel, e.covered, e.size = sel, covered, 0
	if sel != nil {
		sel.SetDiscard(func() { c.discard(e) })
		sel.Notes().CountIn(&c.noted)
		e.size = sizeOf(e.key, sel, covered)
		c.bytes += e.size
		c.kept++
	}
}

// LabelBytes is the memory in bytes that the labels of all that is kept take. Strings that
// several selectors share count for each.
func (c *Cache) LabelBytes() int64 { return c.text.Load() }

// remove takes e out of the cache for good. The cache's mutex must be held.
func (c *Cache) remove(e *entry) {
	if e.removed {
		return
	}
	c.set(e, nil, nil)
	delete(c.entries, e.key)
	c.index.Remove(e, e.matchers)
	e.removed = true
}

// mostIdle is how many entries without content there may be, of keys of at most longestIdle bytes:
// they say what their selectors are worth when they are asked for again.
const (
	mostIdle    = 1024
	longestIdle = 4096
)

// idle reports whether e neither holds nor awaits anything.
func (e *entry) idle() bool { return e.sel == nil && len(e.flights) == 0 }

// tidy removes e if it is idle and may not stay, or another idle entry in its place. The cache's
// mutex must be held.
func (c *Cache) tidy(e *entry) {
	switch {
	case !e.idle():
	case c.limit == 0 || len(e.key) > longestIdle:
		c.remove(e)
	case len(c.entries)-c.kept > mostIdle:
		for _, other := range c.entries {
			if other.idle() {
				c.remove(other)
				return
			}
		}
	}
}

// keep joins what f brought and is to be kept to what its entry has, in place of what that has of the
// same times, if there is room for it. What is too old goes. Queries that hold the former selection are
// not disturbed. What it returns compares what was kept with what has taken its place.
func (c *Cache) keep(ctx context.Context, f *flight) (compare func() error, err error) {
	compare = func() error { return nil }
	fresh := f.kept()
	brought, err := f.sel.Slice(fresh.From, fresh.To-1).Cut(ctx, fresh.From, fresh.To-1)
	if err != nil {
		return nil, err
	}
	brought = brought.Compact(0.5)
	var n newcomer
	var had tile.Coverage
	for kept := false; !kept; {
		c.mu.Lock()
		n = newcomer{flight: f, base: f.entry.sel, fresh: fresh, worth: f.entry.used.WorthOf(fresh)}
		had = f.entry.covered
		c.mu.Unlock()
		usable := had.Usable(c.moment()) // what was kept since f started stays
		if c.narrow(f) && len(usable.All().Missing(fresh)) == 0 {
			return compare, nil // others were quicker
		}
		n.sel, n.covered = brought, usable.Without(fresh)
		if len(n.covered) > 0 {
			rest, err := tile.Restrict(ctx, n.base, had.All(), n.covered.All())
			if err != nil {
				return nil, err
			}
			if n.sel, err = tile.Join(ctx, []tile.Input{{From: n.covered[0].From, Sel: rest}, {From: fresh.From, Sel: brought}}); err != nil {
				return nil, err
			}
		}
		for _, s := range f.has {
			n.covered = n.covered.Having(s)
		}
		n.sel = n.sel.WithMemos(n.covered.Until(c.tile))
		switch kept, err = c.put(&n); {
		case errors.Is(err, errChanged): // by another flight; what that brought stays, too
		case err != nil || !kept:
			return compare, err
		}
	}
	if f.from != fromDisk {
		c.saver.Save(f.entry.key)
	}
	if old := had.Old().Within(f.settled()).All(); len(old) > 0 && f.from == fromUpstream {
		compare = func() error {
			if n, first := selection.Changed(n.base, brought, old.Pairs()); n > 0 {
				c.metrics.corrected.add(int64(n))
				c.log.Warn("The upstream has other samples than were cached of it, which are replaced", "selector", f.entry.key, "series", n, "first", first)
			}
			return nil
		}
	}
	return compare, nil
}
