package cache

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// flight is one fetch, shared by all queries that need something of it. It runs
// in a goroutine of its own, in a context that ends when nobody waits any more,
// so that no query fails because another was cancelled.
type flight struct {
	entry   *entry
	whole   span  // what is fetched
	old     span  // the tiles of it that will be kept
	settled span  // what was kept of all time when it started
	at      int64 // when it started, ms; see Cache.fetchedAt
	wide    *wide // what is kept of a wider selector that covers whole; nil if there is none
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has landed

	// Guarded by the cache's mutex.
	waiters int
	void    bool // what it brings was dropped meanwhile and is not to be kept

	// The result, to be read when it has landed.
	sel *selection.Selection
	ws  annotations.Annotations
	err error
}

// wide is what is kept of a selector that matches all that another does.
type wide struct {
	entry *entry
	sel   *selection.Selection
	at    int64 // when the oldest of it that is wanted was fetched, ms
}

// start starts a flight for s with one waiter. w is of a wider selector that
// covers s, or nil. The cache's mutex must be held.
func (c *Cache) start(ctx context.Context, e *entry, s, settled span, w *wide, matchers []*labels.Matcher) *flight {
	qs := statsFrom(ctx)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{
		entry: e, whole: s, settled: settled, at: c.fetchedAt(),
		old:    span{max(s.from, settled.from), min(s.to, settled.to)},
		wide:   w,
		cancel: cancel, done: make(chan struct{}), waiters: 1,
	}
	e.flights = append(e.flights, f)
	go c.fly(ctx, f, slices.Clone(matchers), qs)
	return f
}

// fly fetches and keeps what f is for. Queries see its tiles either under way
// or kept, never neither.
func (c *Cache) fly(ctx context.Context, f *flight, matchers []*labels.Matcher, qs *QueryStats) {
	defer c.enter()()
	defer f.cancel()
	defer close(f.done)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.leaveEntry()
		c.tidy(f.entry)
	}()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("Panic while fetching", "panic", p, "stack", string(debug.Stack()))
			f.sel, f.err = nil, fmt.Errorf("panic while fetching: %v", p)
		}
	}()

	if !c.subsume(f, matchers, qs) {
		f.sel, f.ws, f.err = c.fetch(ctx, f.whole, matchers)
		if f.err != nil {
			return
		}
		if qs != nil {
			qs.FetchedBytes.Add(f.sel.PayloadBytes())
		}
	}
	f.sel.SetDiscard(func() { c.discard(f.entry) })
	if f.old.empty() || len(f.ws) > 0 {
		return
	}
	if err := c.keep(f.entry, f); err != nil {
		c.log.Warn("Could not keep what was fetched", "err", err)
		c.discard(f.entry)
	}
}

// subsume answers f from the wider selector that it has, if it has one and that
// is certain to be right.
func (c *Cache) subsume(f *flight, matchers []*labels.Matcher, qs *QueryStats) bool {
	if f.wide == nil {
		return false
	}
	tiles := spans{f.whole}.tiles(c.tile)
	sel, ok := narrowed(f.wide.sel, matchers, f.wide.entry.matchers, c.lacks)
	if ok {
		var err error
		// Exactly, for beside it there may be what is too old.
		if sel, err = sel.Slice(f.whole.from, f.whole.to-1).Cut(f.whole.from, f.whole.to-1); err == nil {
			f.sel, f.at = sel, f.wide.at
			c.metrics.subsumed.add(tiles)
			if qs != nil {
				qs.TilesSubsumed.Add(tiles)
			}
			c.mu.Lock()
			f.entry.parent = f.wide.entry // if it is corrupt, so is that
			c.mu.Unlock()
			return true
		}
	}
	c.metrics.misses.add(tiles)
	if qs != nil {
		qs.TilesFetched.Add(tiles)
		qs.Fetches.Add(1)
	}
	return false
}

// leaveEntry takes f off the list of flights that new queries may join. The
// cache's mutex must be held.
func (f *flight) leaveEntry() {
	if i := slices.Index(f.entry.flights, f); i >= 0 {
		f.entry.flights = slices.Delete(f.entry.flights, i, i+1)
	}
}

// await waits until all flights have landed or one has failed. In that case,
// or when ctx ends, the others are left.
func (c *Cache) await(ctx context.Context, flights []*flight) error {
	for i, f := range flights {
		select {
		case <-f.done:
			if f.err != nil {
				c.leave(flights[i+1:])
				return f.err
			}
		case <-ctx.Done():
			c.leave(flights[i:])
			return ctx.Err()
		}
	}
	return nil
}

// leave stops waiting for flights. Those that nobody else waits for are
// cancelled, and have ended when it returns.
func (c *Cache) leave(flights []*flight) {
	var ended []*flight
	c.mu.Lock()
	for _, f := range flights {
		if f.waiters--; f.waiters == 0 {
			f.leaveEntry()
			c.tidy(f.entry)
			f.cancel()
			ended = append(ended, f)
		}
	}
	c.mu.Unlock()
	for _, f := range ended {
		<-f.done
	}
}
