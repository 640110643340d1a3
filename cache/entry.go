package cache

import (
	"context"
	"math"
	"slices"
	"sync"
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
	used     tile.Coverage        // how much what it was asked for is worth; see usedAgain
	tail     int64                // how much that it is asked for with the newest samples is worth
	looked   int64                // when it was last, in ms
	asked    uint64               // number of the last use
	held     []*lookup            // of running queries, whose memory would not be free if it were evicted
	empty    emptiness            // what fetches found empty
	removed  bool                 // no longer in the cache; nothing is to be kept any more

	parent *entry // of a wider selector which content was taken from; nil for none

	merging sync.Mutex // held while sel is made anew
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

// use returns the entry of key, a new one if need be, as the most recently
// used. The cache's mutex must be held.
func (c *Cache) use(key string, matchers []*labels.Matcher) *entry {
	e, ok := c.entries[key]
	if !ok {
		e = &entry{key: key, matchers: slices.Clone(matchers)}
		c.entries[key] = e
		c.index.Add(e, e.matchers)
	}
	c.uses++
	e.asked = c.uses
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

// keep joins what f brought and is to be kept to e, in place of what e has of that,
// if there is room for it. What is too old goes. Queries that hold e's former selection are not disturbed.
func (c *Cache) keep(ctx context.Context, e *entry, f *flight) error {
	fresh := f.kept()
	brought, err := f.sel.Slice(fresh.From, fresh.To-1).Cut(ctx, fresh.From, fresh.To-1)
	if err != nil {
		return err
	}
	brought = brought.Compact(0.5)
	e.merging.Lock()
	defer e.merging.Unlock()
	c.mu.Lock()
	base, had, void, worth := e.sel, e.covered, f.void, e.used.WorthOf(fresh)
	c.mu.Unlock()
	if void {
		return nil
	}

	sel, covered := brought, tile.Coverage(nil)
	if base != nil {
		m := c.moment() // what was kept since f started stays
		if c.narrow(f) && len(had.Usable(m).All().Missing(fresh)) == 0 {
			return nil // others were quicker
		}
		left := had.Without(fresh).Usable(m)
		rest, err := tile.Restrict(ctx, base, had.All(), left.All())
		if err != nil {
			return err
		}
		if len(left) > 0 {
			if sel, err = tile.Join(ctx, []tile.Input{{From: left[0].From, Sel: rest}, {From: fresh.From, Sel: brought}}); err != nil {
				return err
			}
		}
		covered = left
	}
	for _, s := range f.has {
		covered = covered.Having(s)
	}
	sel = sel.WithMemos(covered.Until(c.tile))
	kept, err := c.put(newcomer{e, sel, covered, tile.Spans{fresh}, worth})
	if err != nil {
		return err
	}
	if !kept {
		c.metrics.refused.add(tile.Spans{fresh}.Tiles(c.tile))
		return nil
	}
	if !f.restored {
		c.saver.Save(e.key)
	}
	if old := had.Old().Within(f.settled, math.MinInt64).All(); len(old) > 0 && !f.restored && f.wider == nil {
		f.replaced = func() {
			defer c.rescue(func(error) {})
			if n, first := selection.Changed(base, brought, old.Pairs()); n > 0 {
				c.metrics.corrected.add(int64(n))
				c.log.Warn("The upstream has other samples than were cached of it, which are replaced", "selector", e.key, "series", n, "first", first)
			}
		}
	}
	return nil
}
