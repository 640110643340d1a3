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
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/selection"
)

// Upstream is where the cache gets what it lacks.
type Upstream interface {
	// Fetch returns everything that matches from mint to maxt (ms since the
	// epoch, both included). It may return whole chunks that reach beyond. The
	// cache calls it from several goroutines at once.
	Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, f selection.Fetch) (*selection.Selection, annotations.Annotations, error)
}

// Belated is what an Upstream may also be: one that gets samples long after their time, as a store of
// blocks that are uploaded does.
type Belated interface {
	// Complete returns the time, in ms, before which nothing is missing that is still to come. What
	// is fetched of later times is not kept.
	Complete() int64
}

// Together is what an Upstream may also be: one that fetches for many selectors in fewer requests
// than one each.
type Together interface {
	// FetchTogether calls came once for each of asks, from several goroutines, with what Fetch
	// would have returned, or with nil where that is to be called. It returns when it has.
	FetchTogether(mint, maxt int64, asks []selection.Ask, came func(i int, sel *selection.Selection))
}

// Cache answers selectors from memory as far as it can. It is a selection.Source, of which
// selection.Storage makes what Prometheus queries. It is safe for concurrent use.
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
