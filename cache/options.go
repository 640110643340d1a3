package cache

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
)

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

// prefetchPause is how often there may be something to prefetch: when a tile has become
// old enough, or what is young too old.
func (o Options) prefetchPause() time.Duration {
	pause := o.Tile / 20
	if o.Recheck > 0 {
		pause = min(pause, o.Recheck/20)
	}
	return max(pause, time.Second)
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
		c.saver = disk.NewSaver(c.disk, c.write, o.saveRetry, o.saveGrace)
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
