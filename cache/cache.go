// Package cache keeps what selectors matched, still encoded, and fetches from
// its upstream only the time ranges it lacks.
//
// Time is cut into tiles. For every selector the cache holds one selection and
// the stretches of tiles that it covers, with the time that each was fetched. The
// selection has the samples of those tiles and no others. What is older than the
// freshness horizon is kept, up to a greatest age; what is younger is not, or for some
// minutes only (young.go), and what is so old that it may vanish upstream never: it is
// fetched for every query and joined to what is kept.
package cache

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/saving"
	"github.com/promwarp/promwarp/selection"
)

// Upstream is where the cache gets what it lacks.
type Upstream interface {
	// Fetch returns everything that matches from mint to maxt (ms since the
	// epoch, both included). It may return whole chunks that reach beyond. The
	// cache calls it from several goroutines at once.
	Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, f selection.Fetch) (*selection.Selection, annotations.Annotations, error)
}

// Together is what an Upstream may also be: one that fetches for many selectors in fewer requests
// than one each.
type Together interface {
	// FetchTogether calls came once for each of asks, from several goroutines, with what Fetch
	// would have returned, or with nil where that is to be called. It returns when it has.
	FetchTogether(mint, maxt int64, asks []selection.Ask, came func(i int, sel *selection.Selection))
}

// Cache answers selectors from memory as far as it can. It implements
// storage.SampleAndChunkQueryable, and its Queriers implement
// selection.Querier. It is safe for concurrent use.
type Cache struct {
	up        Upstream
	limit     int64 // bytes
	tile      int64 // ms
	fresh     int64 // ms
	recheck   int64 // ms; 0 means that nothing younger than fresh is kept
	maxAge    int64 // ms; 0 means no end
	retention int64 // ms; 0 means no end
	now       func() time.Time
	log       *slog.Logger
	metrics   *metrics
	disk      *disk.Store   // nil when there is none
	saver     *saving.Saver // nil when there is none
	stop      func()        // ends fetching ahead

	// files is held by who reads or writes files, and alone by who drops
	// something of them and of memory. It is taken before all other locks.
	files sync.RWMutex

	mu      sync.Mutex // guards what follows and the fields of entries and flights that say so
	entries map[string]*entry
	index   matching.Index[*entry] // of all entries
	uses    uint64                 // queries so far
	bytes   int64                  // of all entries, without notes
	text    atomic.Int64           // bytes of the labels of all entries' selections
	noted   atomic.Int64           // bytes of the notes on all entries' selections
	kept    int                    // entries that hold something
	tiles   int64                  // of all entries

	flying atomic.Int64 // flights that have not ended

	adding sync.Mutex // held while an entry gets more; taken after its merging and before mu
}

// New returns a cache in front of up.
func New(up Upstream, o Options) *Cache {
	o = o.withDefaults()
	c := &Cache{
		up:        up,
		limit:     o.HostBytes,
		tile:      o.Tile.Milliseconds(),
		fresh:     o.Fresh.Milliseconds(),
		recheck:   o.Recheck.Milliseconds(),
		maxAge:    o.MaxAge.Milliseconds(),
		retention: o.Retention.Milliseconds(),
		now:       o.Now,
		log:       o.Logger,
		entries:   map[string]*entry{},
		index:     matching.Index[*entry]{},
	}
	c.metrics = newMetrics(o.Registerer, c)
	if o.Disk != nil && c.limit > 0 {
		c.disk = o.Disk
		c.saver = newSaver(c, o.saveRetry, o.saveGrace)
		registerDisk(o.Registerer, c)
	}
	c.stop = func() {}
	if o.Prefetch.Requests > 0 && c.limit > 0 {
		c.stop = c.startPrefetching(o.Prefetch, o.prefetchPause())
	}
	return c
}

// Close ends prefetching, writes what is still to be written to disk and closes
// that. What is not written within a second is left. The cache can be used further,
// without those.
func (c *Cache) Close() error {
	c.stop()
	if c.disk == nil {
		return nil
	}
	c.saver.Close()
	return c.disk.Close()
}

// Clear forgets everything that is kept. Fetches in progress finish for the
// queries that wait for them, but what they bring is not kept.
func (c *Cache) Clear() {
	c.files.Lock()
	defer c.files.Unlock()
	c.mu.Lock()
	for _, e := range c.entries {
		c.remove(e)
	}
	c.mu.Unlock()
	if c.disk != nil {
		for _, key := range c.disk.Keys() {
			_ = c.disk.Drop(key) // says in the log what is wrong
		}
	}
}

// result returns a selection that covers at least what l was looked up for. It may hold chunks and
// series outside of it. It is not evicted until l is released.
func (c *Cache) result(ctx context.Context, l *lookup) (*selection.Selection, annotations.Annotations, error) {
	l.got = true
	switch {
	case l.entry == nil:
		return selection.Empty(), nil, ctx.Err()
	case len(l.flights) == 0:
		return l.covered.Usable(l.moment).From(l.entry.key, l.sel), nil, ctx.Err()
	}
	start := time.Now()
	arrived := l.request.Progress.Fetch()
	err := c.await(ctx, l.flights)
	arrived()
	l.request.Stats.FetchNanos.Add(int64(time.Since(start)))
	if err != nil {
		return nil, nil, err
	}
	return c.assemble(ctx, l)
}

// discard forgets an entry whose content turned out to be unusable, and those
// that it was taken from.
func (c *Cache) discard(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e != nil {
		from := e.parent
		e.parent = nil
		c.saver.Drop(e.key) // what is on disk is unusable, too
		if !e.removed {
			c.remove(e)
			c.metrics.discards.add(1)
			c.log.Warn("Dropped a cached selection with a corrupt chunk; it is fetched again when next asked for")
		}
		e = from
	}
}

// fetch asks the upstream for what f is for, unless it came together with what others are for.
func (c *Cache) fetch(f *flight) (sel *selection.Selection, ws annotations.Annotations, err error) {
	start := time.Now()
	defer func() {
		c.metrics.fetches.add(1)
		c.metrics.seconds.Observe(time.Since(start).Seconds())
		if err != nil {
			c.metrics.failures.add(1)
		}
	}()
	if sel = f.came; sel == nil {
		sel, ws, err = c.up.Fetch(f.ctx, f.From, f.To-1, f.entry.matchers, f.fetch)
	}
	if err != nil {
		return nil, ws, err
	}
	if sel == nil {
		return nil, ws, fmt.Errorf("upstream returned neither a selection nor an error for %d to %d ms", f.From, f.To-1)
	}
	c.metrics.bytes.add(sel.PayloadBytes())
	// The upstream may hand out one selection more than once.
	return sel.Slice(math.MinInt64, math.MaxInt64), ws, nil
}
