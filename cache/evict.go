package cache

import (
	"cmp"
	"context"
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// wellUsed is the share of a slab that is in use after parts of an entry have left.
const wellUsed = 7. / 8

// newcomer is the new content of an entry.
type newcomer struct {
	entry   *entry
	sel     *selection.Selection
	covered tile.Coverage // of sel
	fresh   tile.Spans    // what it is done for
	worth   int64         // of that
}

// put gives n's entry its content, if there is room for it or others that are worth less make room.
// Parts of the content may leave, too, but for what is fresh. It reports whether the entry has that.
// The entry's merging must be held, c.mu not.
func (c *Cache) put(n newcomer) (bool, error) {
	c.adding.Lock() // for what makes room for one must not be taken by another
	defer c.adding.Unlock()
	e := n.entry
	for {
		c.mu.Lock()
		if e.removed {
			c.mu.Unlock()
			return false, nil
		}
		over := c.held() + n.bytes() - e.bytes() - c.limit
		if over <= 0 {
			if n.sel != e.sel {
				n.sel.SetDiscard(func() { c.discard(e) })
			}
			c.set(e, n.sel, n.covered)
			c.mu.Unlock()
			return true, nil
		}
		leave := c.leaving(&n, over)
		c.mu.Unlock()
		shed := false
		for _, v := range leave {
			if v.entry != e {
				shed = c.shed(v.entry, v.spans) || shed
				continue
			}
			left := tile.Without(n.covered, v.spans)
			rest, err := c.restrict(n.sel, n.covered, left)
			if err != nil {
				return false, err
			}
			n.sel, n.covered, shed = rest, left, true
			c.metrics.evicted.add(v.spans.Tiles(c.tile))
		}
		if !shed {
			return false, nil
		}
	}
}

// bytes is the memory that n's entry is to hold, with notes.
func (n *newcomer) bytes() int64 { return sizeOf(n.entry.key, n.sel, n.covered) + noted(n.sel) }

// mostCopied bounds the bytes that are copied of a selector that is evicted in part, while memory is
// short: the limit divided by it.
const mostCopied = 4

// Reclaim evicts about the given number of bytes, those of least worth first, and returns by how many
// bytes the cache has shrunk. Of selectors that a running query holds something
// of nothing is evicted, as the query keeps all their memory. What has left memory is fetched,
// or read from disk, when it is asked for again.
func (c *Cache) Reclaim(bytes int64) (freed int64) {
	c.adding.Lock() // so that nothing takes the room meanwhile
	defer c.adding.Unlock()
	before := c.Stats().Bytes
	for shed := true; shed && freed < bytes; freed = before - c.Stats().Bytes {
		shed = false
		c.mu.Lock()
		leave := c.leaving(nil, bytes-freed)
		for i, d := range leave {
			all := d.entry.covered.All()
			share := 1 - float64(d.spans.Tiles(c.tile))/float64(max(1, all.Tiles(c.tile)))
			if share*float64(d.entry.sel.PayloadBytes()) > float64(c.limit)/mostCopied {
				leave[i].spans = all
			}
		}
		c.mu.Unlock()
		for _, d := range leave {
			shed = c.shed(d.entry, d.spans) || shed
		}
	}
	return max(0, freed)
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

// leaving chooses what leaves so that a newcomer finds about over bytes more, the least worth first;
// nothing if that is not to be had. Of the newcomer itself all but what is fresh may leave as of
// others. Without a newcomer, nil, memory is to be free: what is held would not be. The cache's mutex
// must be held.
func (c *Cache) leaving(n *newcomer, over int64) []departure {
	now := c.now().UnixMilli()
	var found []candidate
	add := func(v *entry, covered tile.Coverage, bytes int64, fresh tile.Spans) {
		tiles := covered.All().Tiles(c.tile)
		perTile := float64(bytes) / float64(max(1, tiles))
		for _, k := range tile.Without(v.worths(covered), fresh) {
			if n == nil || tile.Gives(k.At, n.worth, now) {
				found = append(found, candidate{k, v, perTile, float64(tiles)})
			}
		}
	}
	// Of a sample leaves its share; more, so that it is not done every time.
	share := min(1, maxSample/float64(max(1, c.kept)))
	want := min(float64(over), float64(max(over, c.limit/64))*share)
	if n != nil {
		add(n.entry, n.covered, n.bytes(), n.fresh)
		want = float64(over+c.limit/64) * share
	}
	for v := range c.sample(maxSample) {
		if n == nil && len(v.held) == 0 || n != nil && v != n.entry {
			add(v, v.covered, v.bytes(), nil)
		}
	}
	out, lacks := c.choose(found, want)
	if n != nil && lacks > float64(c.limit/64)*share {
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

// sample returns at most most entries that hold something, from a random one on.
// The cache's mutex must be held.
func (c *Cache) sample(most int) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		left := most
		for _, e := range c.entries {
			if e.sel == nil {
				continue
			}
			if left--; left < 0 || !yield(e) {
				return
			}
		}
	}
}

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
	err := parallel.Rescue(func() (err error) { // callers hold locks
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
