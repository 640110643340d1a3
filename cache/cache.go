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
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
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
	disk      *disk.Store // nil when there is none
	saver     *disk.Saver // nil when there is none
	stop      func()      // ends fetching ahead

	// files is held by who reads or writes files, and alone by who drops
	// something of them and of memory. It is taken before all other locks.
	files sync.RWMutex

	mu      sync.Mutex // guards what follows and the fields of entries and flights that say so
	entries map[string]*entry
	named   map[string]map[*entry]bool // all entries by the metric name that their matchers fix, empty for none
	uses    uint64                     // queries so far
	bytes   int64                      // of all entries, without notes
	noted   atomic.Int64               // bytes of the notes on all entries' selections
	kept    int                        // entries that hold something
	tiles   int64                      // of all entries

	// LabelBytes is the memory in bytes that the labels of all that is kept take. Strings that several
	// selectors share count for each.
	LabelBytes atomic.Int64

	flying atomic.Int64 // flights that have not ended

	changing sync.Mutex // held while tiles make room, and others take it; taken before mu
}

// moment is the present one.
func (c *Cache) moment() tile.Moment {
	now := c.now().UnixMilli()
	m := tile.Moment{
		Now: now, Tile: c.tile, Settled: tile.Span{From: 2 * tile.MinTime, To: tile.MinTime}, // before all that is asked for
		Oldest: math.MinInt64, Recent: math.MaxInt64,
	}
	if c.limit > 0 {
		m.Settled.To = tile.Floor(now-c.fresh, c.tile)
	}
	if c.retention > 0 {
		m.Settled.From = min(m.Settled.To, tile.Floor(now-c.retention+c.tile-1, c.tile))
	}
	if c.maxAge > 0 {
		m.Oldest = now - c.maxAge
	}
	if c.recheck > 0 {
		m.Recent = now - c.recheck
	}
	return m
}

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

// Defaults of Options. HostBytes has no default of its own, since 0 disables
// keeping; DefaultHostBytes is what a program should offer.
//
// A tile of half an hour ends where a Prometheus ends a chunk of samples that are
// 15 s apart: 120 of them, a quarter of the two hours at which all chunks end. A
// fetch that begins there costs that Prometheus about half as much as one that
// begins within a chunk, which has to be decoded and encoded again, and what is
// kept has no chunks cut in two. Chunks of samples further apart end at every
// second or fourth tile.
const (
	DefaultHostBytes = 1 << 30 // bytes
	DefaultTile      = 30 * time.Minute
	DefaultFresh     = 10 * time.Minute
	DefaultRecheck   = 5 * time.Minute
	DefaultMaxAge    = 24 * time.Hour
)

// Options configure a Cache.
type Options struct {
	// HostBytes is the most memory that kept selections may hold, in bytes.
	// 0 disables keeping: every query is fetched.
	HostBytes int64
	// Tile is the unit of what is kept: fetched ranges are widened to multiples
	// of it, counted from the epoch. It is rounded down to whole ms; 0 means
	// DefaultTile. A chunk that crosses the edge at which one fetch ends and the
	// next begins is cut in two, so a short tile makes many small chunks.
	Tile time.Duration
	// Fresh is how long samples may still arrive or change; what is not older than
	// it is fetched again each time. It must be at least the
	// delay of the upstream's ingestion. 0 means DefaultFresh, and a negative
	// value none.
	Fresh time.Duration
	// OutOfOrder is the upstream's out-of-order window, by how much a sample may
	// be older than the newest of its series. It counts on top of Fresh.
	OutOfOrder time.Duration
	// Recheck is how long what is not older than Fresh may be answered from what is
	// kept, as far as all series have newer samples; then it is fetched again. It has
	// no effect where there is an out-of-order window, and is at most Fresh. 0 means
	// that nothing of that is kept, and all of it is fetched for every query.
	Recheck time.Duration
	// MaxAge is how long after they were fetched tiles are answered from what is
	// kept; then they are fetched again. So it is the longest that deletions and
	// backfills upstream stay unseen. 0 means no end.
	MaxAge time.Duration
	// Retention is how far back the upstream keeps its data. Tiles that reach
	// back further may vanish there at any time: they are fetched for every query
	// and not kept. 0 means that nothing vanishes.
	Retention time.Duration
	// Prefetch is the budget of fetching ahead of queries; the zero value means
	// that nothing is.
	Prefetch Budget
	// Disk keeps on disk what is kept in memory; nil means none. The cache closes
	// it. Without HostBytes it is not used.
	Disk *disk.Store
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger receives what goes wrong behind the queries' backs; nil means none.
	Logger *slog.Logger
	// Registerer receives the cache's metrics; nil means none.
	Registerer prometheus.Registerer

	saveRetry time.Duration // 0 means saveRetry
	saveGrace time.Duration // 0 means saveGrace
}

// withDefaults fills in defaults.
func (o Options) withDefaults() Options {
	o.HostBytes = max(o.HostBytes, 0)
	if o.Tile < time.Millisecond {
		o.Tile = DefaultTile
	}
	o.Fresh = max(cmp.Or(o.Fresh, DefaultFresh), 0) + max(o.OutOfOrder, 0)
	o.Recheck = min(max(o.Recheck, 0), o.Fresh)
	if o.OutOfOrder > 0 {
		o.Recheck = 0
	}
	o.MaxAge = max(o.MaxAge, 0)
	o.Retention = max(o.Retention, 0)
	o.saveRetry = cmp.Or(o.saveRetry, saveRetry)
	o.saveGrace = cmp.Or(o.saveGrace, saveGrace)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
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
		named:     map[string]map[*entry]bool{},
	}
	c.metrics = newMetrics(o.Registerer, c)
	if o.Disk != nil && c.limit > 0 {
		c.disk = o.Disk
		c.saver = disk.NewSaver(c.disk, c.write, o.saveRetry, o.saveGrace)
		registerDisk(o.Registerer, c)
	}
	c.stop = func() {}
	if o.Prefetch.Requests > 0 && c.limit > 0 {
		// There may be something to fetch when a tile has become old enough, or what is young too old.
		c.stop = c.startPrefetching(o.Prefetch, max(min(o.Tile, cmp.Or(o.Recheck, o.Tile))/20, time.Second))
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
