// Package cache keeps what selectors matched, still encoded, and fetches from
// its upstream only the time ranges it lacks.
//
// Time is cut into tiles. For every selector the cache holds one selection and
// the stretches of whole tiles that it covers. Everything older than the
// freshness horizon is taken to be immutable and kept; what is younger is
// fetched for every query and joined to what is kept, but not kept itself.
package cache

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// Defaults of Options. HostBytes has no default of its own, since 0 disables
// keeping; DefaultHostBytes is what a program should offer.
const (
	DefaultHostBytes = 1 << 30 // bytes
	DefaultTile      = 20 * time.Minute
	DefaultFresh     = 10 * time.Minute
)

// Upstream is where the cache gets what it lacks.
type Upstream interface {
	// Fetch returns everything that matches from mint to maxt (ms since the
	// epoch, both included). It may return whole chunks that reach beyond. The
	// cache calls it from several goroutines at once.
	Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error)
}

// Options configure a Cache.
type Options struct {
	// HostBytes is the most memory that kept selections may hold, in bytes.
	// 0 disables keeping: every query is fetched.
	HostBytes int64
	// Tile is the unit of what is kept: fetched ranges are widened to multiples
	// of it, counted from the epoch. It is rounded down to whole ms; 0 means
	// DefaultTile. What lies between the last whole tile and now is fetched for
	// every query, so a short tile saves fetching; but a chunk that crosses the
	// edge at which one fetch ends and the next begins is cut in two, so a very
	// short one makes many small chunks.
	Tile time.Duration
	// Fresh is how long samples may still arrive or change; the tiles that are
	// not older than it are fetched again each time. It must be at least the
	// upstream's out-of-order window plus the delay of its ingestion. 0 means
	// DefaultFresh, and a negative value none.
	Fresh time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger receives what goes wrong behind the queries' backs; nil means none.
	Logger *slog.Logger
	// Registerer receives the cache's metrics; nil means none.
	Registerer prometheus.Registerer
}

// Cache answers selectors from memory as far as it can. It implements
// storage.SampleAndChunkQueryable, and its Queriers implement
// selection.Querier. It is safe for concurrent use.
type Cache struct {
	up      Upstream
	limit   int64 // bytes
	tile    int64 // ms
	fresh   int64 // ms
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics

	mu      sync.Mutex // guards what follows and the fields of entries and flights that say so
	entries map[string]*entry
	recent  list.List // of *entry, the most recently used first
	bytes   int64     // of all entries
	kept    int       // entries that hold something
	tiles   int64     // of all entries
}

// New returns a cache in front of up.
func New(up Upstream, o Options) *Cache {
	c := &Cache{
		up:      up,
		limit:   max(o.HostBytes, 0),
		tile:    o.Tile.Milliseconds(),
		fresh:   o.Fresh.Milliseconds(),
		now:     o.Now,
		log:     o.Logger,
		entries: map[string]*entry{},
	}
	if c.tile <= 0 {
		c.tile = DefaultTile.Milliseconds()
	}
	if o.Fresh == 0 {
		c.fresh = DefaultFresh.Milliseconds()
	}
	c.fresh = max(c.fresh, 0)
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.metrics = newMetrics(o.Registerer, c)
	return c
}

// Clear forgets everything that is kept. Fetches in progress finish for the
// queries that wait for them, but what they bring is not kept.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		c.remove(e)
	}
}

// get returns a selection that covers at least mint to maxt (ms, both
// included). It may hold chunks and series outside of them.
func (c *Cache) get(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	if mint > maxt {
		return selection.Empty(), nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	want := span{max(mint, minTime), min(maxt, maxTime) + 1}
	l := c.look(ctx, want, matchers)
	if len(l.flights) == 0 {
		return l.sel, nil, nil
	}
	start := time.Now()
	err := c.await(ctx, l.flights)
	if qs := statsFrom(ctx); qs != nil {
		qs.FetchNanos.Add(int64(time.Since(start)))
	}
	if err != nil {
		return nil, nil, err
	}
	return c.assemble(want, l)
}

// lookup is what one query found: what was kept, and the flights that bring
// what was not.
type lookup struct {
	entry   *entry
	sel     *selection.Selection // nil when nothing was kept
	covered spans
	old     span // the tiles asked for that are kept or are to be kept
	tail    bool // whether something younger was asked for, too
	flights []*flight
}

// look finds the entry of a selector and joins or starts the flights for what
// it lacks of want.
func (c *Cache) look(ctx context.Context, want span, matchers []*labels.Matcher) lookup {
	key := selectorKey(matchers)
	horizon := c.horizon()
	old, tail := want.split(horizon)
	old = old.widen(c.tile)

	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.use(key)
	l := lookup{entry: e, sel: e.sel, covered: e.covered, old: old, tail: !tail.empty()}
	missing := e.covered.missing(old)
	missed := missing.tiles(c.tile)
	hit := spans{old}.tiles(c.tile) - missed

	// Join what is under way.
	shared := 0
	for _, f := range e.flights {
		rest := missing.without(f.old)
		helps := !slices.Equal(rest, missing)
		// A flight that ends elsewhere may be of another moment; its youngest
		// stretch is only shared with queries for the very same end.
		if !tail.empty() && f.whole.to == tail.to && f.whole.from <= tail.from {
			tail, helps = span{}, true
		}
		if helps {
			missing = rest
			f.waiters++
			shared++
			l.flights = append(l.flights, f)
		}
	}

	// Start what is not; the tail together with the tiles right before it.
	if n := len(missing); n > 0 && !tail.empty() && missing[n-1].to == tail.from {
		missing[n-1].to = tail.to
	} else if !tail.empty() {
		missing = append(missing, tail)
	}
	for _, s := range missing {
		l.flights = append(l.flights, c.start(ctx, e, s, horizon, matchers))
	}
	if len(l.flights) == 0 && l.sel == nil {
		l.sel = selection.Empty()
	}

	c.metrics.hits.add(int64(hit))
	c.metrics.misses.add(int64(missed))
	c.metrics.shared.add(int64(shared))
	if qs := statsFrom(ctx); qs != nil {
		qs.TilesHit.Add(hit)
		qs.TilesFetched.Add(missed)
		qs.Fetches.Add(int64(len(missing)))
		qs.SharedFetches.Add(int64(shared))
	}
	return l
}

// horizon is the end of what is kept, in ms.
func (c *Cache) horizon() int64 {
	if c.limit == 0 {
		return minTime
	}
	return floor(c.now().UnixMilli()-c.fresh, c.tile)
}

// assemble puts together the answer for want after all flights have landed.
func (c *Cache) assemble(want span, l lookup) (*selection.Selection, annotations.Annotations, error) {
	var ws annotations.Annotations
	for _, f := range l.flights {
		ws.Merge(f.ws) // into a map of its own; those of flights are shared
	}
	for _, f := range l.flights {
		if f.whole.from <= want.from && f.whole.to >= want.to {
			return f.sel, ws, nil
		}
	}
	if !l.tail {
		if sel, ok := c.covering(l.entry, l.old); ok {
			return sel, ws, nil
		}
	}
	parts := make([]part, 0, len(l.flights)+1)
	if l.sel != nil {
		parts = append(parts, part{l.covered[0].from, l.sel.Slice(want.from, want.to-1)})
	}
	for _, f := range l.flights {
		parts = append(parts, part{f.whole.from, f.sel})
	}
	sel, err := join(parts)
	if err != nil {
		c.discard(l.entry)
		return nil, ws, err
	}
	if !slices.ContainsFunc(parts, func(p part) bool { return p.sel == sel }) {
		sel.SetDiscard(func() { c.discard(l.entry) })
	}
	return sel, ws, nil
}

// part is a selection to be joined with others; from (ms) puts them in order.
type part struct {
	from int64
	sel  *selection.Selection
}

// join joins parts in time order, which spares selection.Join the sorting.
func join(parts []part) (*selection.Selection, error) {
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.from, b.from) })
	sels := make([]*selection.Selection, len(parts))
	for i, p := range parts {
		sels[i] = p.sel
	}
	return selection.Join(sels...)
}

// covering returns e's selection if it covers s.
func (c *Cache) covering(e *entry, s span) (*selection.Selection, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(e.covered.missing(s)) > 0 {
		return nil, false
	}
	return e.sel, true
}

// discard forgets an entry whose content turned out to be unusable.
func (c *Cache) discard(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.removed {
		return
	}
	c.remove(e)
	c.metrics.discards.add(1)
	c.log.Warn("Dropped a cached selection with a corrupt chunk; it is fetched again when next asked for")
}

// fetch asks the upstream for s.
func (c *Cache) fetch(ctx context.Context, s span, matchers []*labels.Matcher) (sel *selection.Selection, ws annotations.Annotations, err error) {
	start := time.Now()
	defer func() {
		c.metrics.fetches.add(1)
		c.metrics.seconds.Observe(time.Since(start).Seconds())
		if err != nil {
			c.metrics.failures.add(1)
		}
	}()
	sel, ws, err = c.up.Fetch(ctx, s.from, s.to-1, matchers)
	if err != nil {
		return nil, ws, err
	}
	if sel == nil {
		return nil, ws, fmt.Errorf("upstream returned neither a selection nor an error for %d to %d ms", s.from, s.to-1)
	}
	c.metrics.bytes.add(sel.PayloadBytes())
	// The upstream may hand out one selection more than once.
	return sel.Slice(math.MinInt64, math.MaxInt64), ws, nil
}
