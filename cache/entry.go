package cache

import (
	"context"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// entry is what is kept of one selector. Its fields are guarded by the cache's
// mutex.
type entry struct {
	key      string
	matchers []*labels.Matcher
	name     string               // see Cache.named
	sel      *selection.Selection // the samples of what is covered; immutable; nil when nothing is
	covered  tile.Coverage        // immutable
	size     int64                // bytes, without notes
	flights  []*flight            // in the air
	used     tile.Coverage        // how much what it was asked for is worth; see tile.UsedAgain
	tail     int64                // how much that it is asked for with the newest samples is worth
	looked   int64                // when it was last, in ms
	asked    uint64               // number of the last use
	held     []*tile.Span         // of running queries, whose memory would not be free if it were evicted
	empty    tile.Coverage        // what fetches found empty, and when first; see doubts
	unfit    atomic.Int64         // see selection.Expectation.NoSamples
	drops    uint64               // how often something of it was dropped
	removed  bool                 // no longer in the cache; nothing is to be kept any more
	unwrite  context.CancelFunc   // has what is being written to disk of it come to nothing; nil for nothing
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

// bytes is the memory that e holds, with the notes on its selection, which grow while queries use
// that. The cache's mutex must be held.
func (e *entry) bytes() int64 {
	if e.sel == nil {
		return e.size
	}
	return e.size + e.sel.Notes.SizeBytes()
}

// bytesOf is about how many bytes of the selection lie in a stretch of time that is covered: its share of
// all that is. The cache's mutex must be held.
func (e *entry) bytesOf(s tile.Span) float64 {
	length := int64(0)
	for _, c := range e.covered {
		length += c.To - c.From
	}
	if e.sel == nil || length == 0 {
		return 0
	}
	return float64(e.sel.PayloadBytes()) * float64(s.To-s.From) / float64(length)
}

// use returns the entry of a selector, a new one if need be, as the most recently used, and notes
// what a query wants of it. The cache's mutex must be held.
func (c *Cache) use(q *question) *entry {
	e, ok := c.entries[q.key]
	if !ok {
		e = &entry{key: q.key, matchers: slices.Clone(q.matchers)}
		c.entries[q.key] = e
		if e.name = matching.FixedName(e.matchers); c.named[e.name] == nil {
			c.named[e.name] = map[*entry]bool{}
		}
		c.named[e.name][e] = true
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
		c.LabelBytes.Add(sel.TextBytes())
	}
	if e.sel != nil {
		c.LabelBytes.Add(-e.sel.TextBytes())
		e.sel.Notes.CountIn(nil)
		c.kept--
	}
	c.tiles += covered.Tiles(c.tile) - e.covered.Tiles(c.tile)
	e.sel, e.covered, e.size = sel, covered, 0
	if sel != nil {
		sel.OnDiscard = func() { c.discard(e) }
		sel.Notes.CountIn(&c.noted)
		e.size = sizeOf(e.key, sel, covered)
		c.bytes += e.size
		c.kept++
	}
}

// remove takes e out of the cache for good. The cache's mutex must be held.
func (c *Cache) remove(e *entry) {
	if e.removed {
		return
	}
	c.set(e, nil, nil)
	delete(c.entries, e.key)
	if delete(c.named[e.name], e); len(c.named[e.name]) == 0 {
		delete(c.named, e.name)
	}
	e.removed = true
}

// mostIdle is how many entries without content there may be, of keys of at most longestIdle bytes:
// they say what their selectors are worth when they are asked for again.
const (
	mostIdle    = 1024
	longestIdle = 4096
)

// tidy removes e if it neither holds nor awaits anything and may not stay, or another such entry in its
// place. The cache's mutex must be held.
func (c *Cache) tidy(e *entry) {
	idle := func(e *entry) bool { return e.sel == nil && len(e.flights) == 0 }
	switch {
	case !idle(e):
	case c.limit == 0 || len(e.key) > longestIdle:
		c.remove(e)
	case len(c.entries)-c.kept > mostIdle:
		for _, other := range c.entries {
			if idle(other) {
				c.remove(other)
				return
			}
		}
	}
}

// discard forgets an entry whose content turned out to be unusable, and those
// that it was taken from.
func (c *Cache) discard(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e != nil {
		from := e.parent
		e.parent = nil
		if e.unwrite != nil {
			e.unwrite() // before files are dropped, so that none comes after them
		}
		if c.disk != nil {
			_ = c.disk.Drop(e.key) // what is on disk is unusable, too; it says in the log what is wrong
		}
		if !e.removed {
			c.remove(e)
			c.metrics.discards.Inc()
			c.log.Warn("Dropped a cached selection with a corrupt chunk; it is fetched again when next asked for")
		}
		e = from
	}
}
