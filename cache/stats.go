package cache

import (
	"context"
	"sync/atomic"

	"github.com/promwarp/promwarp/selection"
)

// Stats is a snapshot of what the cache holds and has done since it was made.
type Stats struct {
	Bytes     int64 // memory held, in bytes
	Limit     int64 // most memory held, in bytes
	Entries   int   // selectors of which something is kept
	Tiles     int64 // tiles kept, those of all selectors added up
	Hits      int64 // tiles answered from memory
	Misses    int64 // tiles that were not there
	Subsumed  int64 // tiles answered from those of a wider selector
	Fetches   int64 // requests to the upstream that have ended
	Shared    int64 // times a query was answered by a request that another had started
	Fetched   int64 // bytes of encoded chunks and labels that requests brought
	Failures  int64 // requests to the upstream that failed
	Evictions int64 // entries emptied to stay within the limit
	Evicted   int64 // tiles dropped to stay within the limit
	Refused   int64 // tiles fetched and not kept, as all that is kept is worth more
	Discards  int64 // entries dropped because a chunk was corrupt
	Dropped   int64 // tiles dropped by Drop
	Restored  int64 // tiles read from disk
}

// Stats returns the state of the cache.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	s := Stats{Bytes: c.held(), Limit: c.limit, Entries: c.kept, Tiles: c.tiles}
	c.mu.Unlock()
	m := c.metrics
	s.Hits, s.Misses, s.Subsumed = m.hits.value(), m.misses.value(), m.subsumed.value()
	s.Fetches, s.Shared, s.Fetched, s.Failures = m.fetches.value(), m.shared.value(), m.bytes.value(), m.failures.value()
	s.Evictions, s.Evicted, s.Refused = m.evictions.value(), m.evicted.value(), m.refused.value()
	s.Discards, s.Dropped, s.Restored = m.discards.value(), m.dropped.value(), m.restored.value()
	return s
}

// QueryStats collects what the cache did for one query. Fields are added to,
// so one QueryStats may serve several selections.
type QueryStats struct {
	TilesHit      atomic.Int64 // old tiles answered from memory
	TilesSubsumed atomic.Int64 // old tiles answered from those of a wider selector
	TilesFetched  atomic.Int64 // old tiles that were not there
	Fetches       atomic.Int64 // requests to the upstream, the youngest stretch's included
	SharedFetches atomic.Int64 // requests that another query had started already
	FetchedBytes  atomic.Int64 // encoded chunks and labels that Fetches brought, in bytes
	Samples       atomic.Int64 // about how many samples the selections had in the time asked for
	FetchNanos    atomic.Int64 // time spent waiting for requests, own and shared, in ns

	requests selection.Requests
}

type statsKey struct{}

// WithStats returns a context whose queries add to s.
func WithStats(ctx context.Context, s *QueryStats) context.Context {
	return context.WithValue(ctx, statsKey{}, s)
}

func statsFrom(ctx context.Context) *QueryStats {
	s, _ := ctx.Value(statsKey{}).(*QueryStats)
	return s
}

// Requests returns the requests to the upstream that the query started and that have ended, in the
// order in which they did, and how many there were besides.
func (s *QueryStats) Requests() (all []selection.Request, more int) { return s.requests.List() }
