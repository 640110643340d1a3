package cache

import (
	"cmp"
	"context"
	"errors"
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

// newcomer is the new content of an entry, made of the one before and of what a flight brought.
type newcomer struct {
	entry   *entry
	drops   uint64               // of the entry when the flight started
	base    *selection.Selection // the content before
	sel     *selection.Selection
	covered tile.Coverage // of sel
	fresh   tile.Span     // what it is done for
	worth   int64         // of that
	size    int64         // bytes, with notes
}

// errChanged is the error of put when an entry's content is not the one that a newcomer was made of.
var errChanged = errors.New("changed meanwhile")

// put gives n's entry its content, if there is room for it or others that are worth less make room.
// Parts of the content may leave, too, but for what is fresh. It reports whether the entry has that.
func (c *Cache) put(n *newcomer) (bool, error) {
	c.changing.Lock() // for what makes room for one must not be taken by another
	defer c.changing.Unlock()
	e := n.entry
	for {
		n.size = sizeOf(e.key, n.sel, n.covered) + n.sel.Notes.SizeBytes()
		c.mu.Lock()
		over := c.bytes + c.noted.Load() + n.size - e.bytes() - c.limit
		var leave map[*entry]tile.Coverage
		switch {
		case e.removed || e.drops != n.drops:
			c.mu.Unlock()
			return false, nil
		case e.sel != n.base:
			c.mu.Unlock()
			return false, errChanged
		case over <= 0:
			c.set(e, n.sel, n.covered)
			c.mu.Unlock()
			return true, nil
		}
		leave = c.leaving(n, over)
		c.mu.Unlock()
		left := int64(0)
		for v, spans := range leave {
			if v != e {
				left += c.evict(v, spans)
				continue
			}
			rest := n.covered.Less(spans)
			sel, err := c.restrict(n.sel, n.covered, rest)
			if err != nil {
				return false, err
			}
			n.sel, n.covered = sel, rest
			left += spans.Tiles(c.tile)
			c.metrics.evicted.Add(float64(spans.Tiles(c.tile)))
		}
		if left == 0 {
			c.metrics.refused.Add(float64(n.fresh.Tiles(c.tile)))
			return false, nil
		}
	}
}

// mostCopied bounds the bytes that are copied of a selector that is evicted in part, while memory is
// short: the limit divided by it.
const mostCopied = 4

// Reclaim evicts about the given number of bytes, those of least worth first, and returns by how many
// bytes the cache has shrunk. Of selectors that a running query holds something
// of nothing is evicted, as the query keeps all their memory. What has left memory is fetched,
// or read from disk, when it is asked for again.
func (c *Cache) Reclaim(bytes int64) (freed int64) {
	c.changing.Lock() // so that nothing takes the room meanwhile
	defer c.changing.Unlock()
	before := c.Stats().Bytes
	for left := int64(1); left > 0 && freed < bytes; freed = before - c.Stats().Bytes {
		left = 0
		c.mu.Lock()
		leave := c.leaving(nil, bytes-freed)
		for e, spans := range leave {
			all := e.covered.All()
			share := 1 - float64(spans.Tiles(c.tile))/float64(max(1, all.Tiles(c.tile)))
			if share*float64(e.sel.PayloadBytes()) > float64(c.limit)/mostCopied {
				leave[e] = all
			}
		}
		c.mu.Unlock()
		for e, spans := range leave {
			left += c.evict(e, spans)
		}
	}
	return max(0, freed)
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
func (c *Cache) leaving(n *newcomer, over int64) map[*entry]tile.Coverage {
	now := c.now().UnixMilli()
	var found []candidate
	add := func(v *entry, covered tile.Coverage, bytes int64, fresh tile.Span) {
		tiles := covered.Tiles(c.tile)
		perTile := float64(bytes) / float64(max(1, tiles))
		worths := v.used.WorthIn(covered).Without(fresh)
		for _, h := range v.held { // by running queries
			worths = worths.Without(*h)
		}
		for _, k := range worths {
			if n == nil || tile.Gives(k.At, n.worth, now) {
				found = append(found, candidate{k, v, perTile, float64(tiles)})
			}
		}
	}
	// Of a sample leaves its share; more, so that it is not done every time.
	share := min(1, maxSample/float64(max(1, c.kept)))
	want := min(float64(over), float64(max(over, c.limit/64))*share)
	var own *entry
	if n != nil {
		own = n.entry
		add(own, n.covered, n.size, n.fresh)
		want = float64(over+c.limit/64) * share
	}
	for v := range c.sample(maxSample) {
		if v != own && (n != nil || len(v.held) == 0) {
			add(v, v.covered, v.bytes(), tile.Span{})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.entry.asked, b.entry.asked), cmp.Compare(a.From, b.From))
	})
	leave := map[*entry]tile.Coverage{}
	for _, k := range found {
		if want <= 0 {
			break
		}
		// What is left must be copied, so an eighth leaves at least.
		tiles := math.Ceil(max(want/max(k.perTile, 1), k.tiles/8))
		if tiles < float64(k.Tiles(c.tile)) {
			k.To = k.From + int64(tiles)*c.tile
		}
		want -= k.perTile * float64(k.Tiles(c.tile))
		leave[k.entry] = leave[k.entry].With(k.Span, 0)
	}
	if n != nil && want > float64(c.limit/64)*share {
		return nil
	}
	return leave
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

// evict has e make room by what it loses, and returns how many tiles that is. c.changing must be held.
func (c *Cache) evict(e *entry, gone tile.Coverage) int64 {
	n := c.lose(e, gone)
	c.metrics.evicted.Add(float64(n))
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 && e.sel == nil {
		c.metrics.evictions.Inc()
	}
	return n
}

// lose drops spans of what is kept of e, all of it if the rest would take no less room. It returns
// how many tiles that took. c.changing must be held, so that e gets nothing meanwhile.
func (c *Cache) lose(e *entry, gone tile.Coverage) (tiles int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sel, had := e.sel, e.covered
	left := had.Less(gone)
	if sel == nil || slices.Equal(had, left) {
		return 0
	}
	var rest *selection.Selection
	if len(left) > 0 {
		c.mu.Unlock()
		rest, _ = c.restrict(sel, had, left) // what cannot be read goes, too
		c.mu.Lock()
	}
	if e.sel != sel {
		return 0 // all of it has gone
	}
	if rest == nil || sizeOf(e.key, rest, left) >= e.bytes() {
		rest, left = nil, nil
	}
	c.set(e, rest, left)
	c.tidy(e)
	return had.Tiles(c.tile) - left.Tiles(c.tile)
}

// restrict returns of sel, which covers covered, what left has of it, in slabs that
// are well used.
func (c *Cache) restrict(sel *selection.Selection, covered, left tile.Coverage) (*selection.Selection, error) {
	var rest *selection.Selection
	err := parallel.Rescue(func() (err error) { // callers hold locks
		if rest, err = tile.Restrict(context.Background(), sel, covered, left); err == nil {
			rest = rest.Compact(wellUsed).WithMemos(left.Until(c.tile))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return rest, nil
}
