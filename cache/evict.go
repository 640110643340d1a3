package cache

import (
	"cmp"
	"context"
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/selection"
)

// wellUsed is the share of a slab that is in use after parts of an entry have left.
const wellUsed = 7. / 8

// put gives e the content sel, which covers covered, if there is room for it or
// others that are worth less make room. Parts of e's own may leave, too, but for
// fresh, which is what it is done for and what has the given worth. It reports
// whether e has fresh. e.merging must be held, c.mu not.
func (c *Cache) put(e *entry, sel *selection.Selection, covered tile.Coverage, fresh tile.Spans, worth int64) (bool, error) {
	c.adding.Lock() // for what makes room for one must not be taken by another
	defer c.adding.Unlock()
	for {
		c.mu.Lock()
		if e.removed {
			c.mu.Unlock()
			return false, nil
		}
		over := c.held() + sizeOf(e.key, sel, covered) + noted(sel) - e.bytes() - c.limit
		if over <= 0 {
			if sel != e.sel {
				sel.SetDiscard(func() { c.discard(e) })
			}
			c.set(e, sel, covered)
			c.mu.Unlock()
			return true, nil
		}
		leave := c.leaving(e, sel, covered, fresh, worth, over)
		c.mu.Unlock()
		shed := false
		for _, v := range leave {
			if v.entry != e {
				shed = c.shed(v.entry, v.spans) || shed
				continue
			}
			left := tile.Without(covered, v.spans)
			rest, err := c.restrict(sel, covered, left)
			if err != nil {
				return false, err
			}
			sel, covered, shed = rest, left, true
			c.metrics.evicted.add(v.spans.Tiles(c.tile))
		}
		if !shed {
			return false, nil
		}
	}
}

// departure is what is to leave of an entry.
type departure struct {
	entry *entry
	spans tile.Spans
}

// candidate is a stretch that may leave. Its time is its worth.
type candidate struct {
	tile.Stretch
	entry   *entry
	perTile float64 // bytes
	tiles   float64 // of all that its entry covers
}

// leaving chooses what leaves so that a newcomer with the given worth finds about
// over bytes more, the least worth first; nothing if that is not to be had. Of the
// newcomer itself, which is to be e's content, all but fresh may leave as of
// others. The cache's mutex must be held.
func (c *Cache) leaving(e *entry, sel *selection.Selection, covered tile.Coverage, fresh tile.Spans, worth, over int64) []departure {
	now := c.now().UnixMilli()
	var found []candidate
	add := func(v *entry, covered tile.Coverage, bytes int64) {
		tiles := covered.All().Tiles(c.tile)
		perTile := float64(bytes) / float64(max(1, tiles))
		worths := v.worths(covered)
		if v == e {
			worths = tile.Without(worths, fresh)
		}
		for _, k := range worths {
			if tile.Gives(k.At, worth, now) {
				found = append(found, candidate{k, v, perTile, float64(tiles)})
			}
		}
	}
	add(e, covered, sizeOf(e.key, sel, covered)+noted(sel))
	for v := range c.sample(maxSample) {
		if v != e {
			add(v, v.covered, v.bytes())
		}
	}
	out, lacks := c.choose(found, float64(over+c.limit/64)*c.sampled()) // more, so that it is not done every time
	if lacks > float64(c.limit/64)*c.sampled() {
		return nil
	}
	return out
}

// maxSample is the most entries that are looked at for what leaves. Each takes 1 to 3 µs with
// the cache's mutex held, which queries wait for.
const maxSample = 256

// all returns all entries, with the cache's mutex held. After each maxSample of them others may have
// that: an entry that is added meanwhile may be missing.
func (c *Cache) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		seen := 0
		for _, e := range c.entries {
			if !yield(e) {
				return
			}
			if seen++; seen%maxSample == 0 {
				c.mu.Unlock()
				runtime.Gosched()
				c.mu.Lock()
			}
		}
	}
}

// sample returns the entries that hold something among at most so many, from a random one on.
// The cache's mutex must be held.
func (c *Cache) sample(most int) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		left := most
		for _, e := range c.entries {
			if left--; left < 0 || e.sel != nil && !yield(e) {
				return
			}
		}
	}
}

// sampled is the share of all entries that are in a sample for what leaves, 1 for all. This share
// of what is to leave is chosen in each sample, so that what is worth most in one stays.
func (c *Cache) sampled() float64 { return min(1, maxSample/float64(max(1, len(c.entries)))) }

// choose takes of found, the least worth first, what comes to want bytes, and returns how
// many bytes that lacks.
func (c *Cache) choose(found []candidate, want float64) (out []departure, lacks float64) {
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.entry.asked, b.entry.asked), cmp.Compare(a.From, b.From))
	})
	place := map[*entry]int{}
	for _, k := range found {
		if want <= 0 {
			break
		}
		// What is left must be copied, so an eighth leaves at least.
		n := math.Ceil(max(want/max(k.perTile, 1), k.tiles/8))
		s := k.Span
		if n < float64(tile.Spans{s}.Tiles(c.tile)) {
			s.To = s.From + int64(n)*c.tile
		}
		want -= k.perTile * float64(tile.Spans{s}.Tiles(c.tile))
		i, ok := place[k.entry]
		if !ok {
			i = len(out)
			place[k.entry] = i
			out = append(out, departure{entry: k.entry})
		}
		out[i].spans = out[i].spans.With(s)
	}
	return out, want
}

// worths cuts what is covered by what it is worth to e, without what a running
// query holds.
func (e *entry) worths(covered tile.Coverage) tile.Coverage {
	out := e.used.WorthIn(covered.All())
	for _, h := range e.held {
		out = out.Without(h.kept)
	}
	return out
}

// shed drops spans of what is kept of e, and reports whether it did. What is
// being changed at the moment cannot be cut, but be dropped as a whole.
func (c *Cache) shed(e *entry, gone tile.Spans) bool {
	if !e.merging.TryLock() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(tile.Without(e.covered, gone)) > 0 {
			return false
		}
		c.metrics.evicted.add(c.empty(e))
		c.metrics.evictions.add(1)
		return true
	}
	defer e.merging.Unlock()
	tiles, all := c.lose(e, gone)
	c.metrics.evicted.add(tiles)
	if all {
		c.metrics.evictions.add(1)
	}
	return true
}

// empty drops all that is kept of e, and returns how many tiles that was. The cache's mutex must be
// held.
func (c *Cache) empty(e *entry) int64 {
	n := e.covered.All().Tiles(c.tile)
	c.set(e, nil, nil)
	c.tidy(e)
	return n
}

// lose drops spans of what is kept of e, all of it if the rest would take no less room. It returns
// how many tiles that took, and whether it was all. e.merging must be held.
func (c *Cache) lose(e *entry, gone tile.Spans) (tiles int64, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sel, had := e.sel, e.covered
	left := tile.Without(had, gone)
	if sel == nil || slices.Equal(had, left) {
		return 0, false
	}
	if len(left) > 0 {
		c.mu.Unlock()
		rest, err := c.restrict(sel, had, left)
		c.mu.Lock()
		if err == nil && !e.removed && sizeOf(e.key, rest, left) < e.bytes() {
			rest.SetDiscard(func() { c.discard(e) })
			c.set(e, rest, left)
			return had.All().Tiles(c.tile) - left.All().Tiles(c.tile), false
		}
	}
	if e.removed {
		return 0, false
	}
	return c.empty(e), true
}

// restrict returns of sel, which covers covered, what left has of it, in slabs that
// are well used.
func (c *Cache) restrict(sel *selection.Selection, covered, left tile.Coverage) (*selection.Selection, error) {
	var rest *selection.Selection
	err := rescue.Do(func() (err error) { // callers hold locks
		if rest, err = tile.Restrict(context.Background(), sel, covered.All(), left.All()); err == nil {
			rest = rest.Compact(wellUsed).WithMemos(left.Until(c.tile))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return rest, nil
}

// mostCopied is the part of the limit, one in so many bytes, that may be copied of a selector
// that gives way in part: memory is short meanwhile.
const mostCopied = 4

// Reclaim evicts about so many bytes of what is kept, what is worth least first, and returns
// by how many bytes the cache has shrunk. Of selectors that a running query holds something
// of nothing is evicted, as the query keeps all their memory. What has left memory is fetched,
// or read from disk, when it is asked for again.
func (c *Cache) Reclaim(bytes int64) (freed int64) {
	c.adding.Lock() // so that nothing takes the room meanwhile
	defer c.adding.Unlock()
	before := c.Stats().Bytes
	for shed := true; shed && freed < bytes; freed = before - c.Stats().Bytes {
		shed = false
		for _, d := range c.givingWay(bytes - freed) {
			shed = c.shed(d.entry, d.spans) || shed
		}
	}
	return max(0, freed)
}

// givingWay chooses what leaves for so many bytes.
func (c *Cache) givingWay(bytes int64) []departure {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []candidate
	for e := range c.sample(maxSample) {
		if len(e.held) > 0 {
			continue
		}
		tiles := e.covered.All().Tiles(c.tile)
		perTile := float64(e.bytes()) / float64(max(1, tiles))
		for _, k := range e.used.WorthIn(e.covered.All()) {
			found = append(found, candidate{k, e, perTile, float64(tiles)})
		}
	}
	// Of a sample leaves its share; Reclaim asks for the rest again.
	out, _ := c.choose(found, min(float64(bytes), float64(max(bytes, c.limit/64))*c.sampled()))
	for i, d := range out {
		all := d.entry.covered.All()
		share := 1 - float64(d.spans.Tiles(c.tile))/float64(max(1, all.Tiles(c.tile)))
		if share*float64(d.entry.sel.PayloadBytes()) > float64(c.limit)/mostCopied {
			out[i].spans = all
		}
	}
	return out
}
