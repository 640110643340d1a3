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
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

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
	index   matching.Index[*entry] // of all entries
	uses    uint64                 // queries so far
	bytes   int64                  // of all entries, without notes
	text    atomic.Int64           // bytes of the labels of all entries' selections
	noted   atomic.Int64           // bytes of the notes on all entries' selections
	kept    int                    // entries that hold something
	tiles   int64                  // of all entries

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

// fetchedAt is the time of a fetch that begins at a given time, both in ms. It is rounded down to
// a 64th of the greatest age, so that tiles fetched one after another make few
// stretches. Where there is no greatest age it does not matter.
func (c *Cache) fetchedAt(now int64) int64 {
	if c.maxAge == 0 {
		return 0
	}
	return tile.Floor(now, max(c.maxAge/64, 1))
}
