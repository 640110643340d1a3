package cache

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// flight is one fetch, or one look at what is on disk or kept of another selector,
// shared by all queries that need something of it. It runs
// in a goroutine of its own, in a context that ends when nobody waits any more,
// so that no query fails because another was cancelled.
type flight struct {
	part                    // what it brings, and from where
	entry   *entry          // of the selector
	settled tile.Span       // the tiles of it that are to be kept
	moment  tile.Moment     // when it started
	end     int64           // of the query which it was started for
	fetch   selection.Fetch // for that query

	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}        // closed when it has landed
	waiters atomic.Int32         // none once it is cancelled: no query joins it then
	void    bool                 // what it brings was dropped meanwhile and is not to be kept; guarded by the cache's mutex
	came    *selection.Selection // what was fetched together with others; nil if that is not

	// The result, to be read when it has landed.
	sel      *selection.Selection
	ws       annotations.Annotations
	err      error
	has      tile.Coverage // what of it is to be kept
	restored bool          // whether it is from files
	replaced func()        // compares what was kept with what has taken its place; nil if that is nothing
}

// kept is what of f is kept.
func (f *flight) kept() tile.Span {
	if len(f.has) == 0 {
		return tile.Span{}
	}
	return tile.Span{From: f.has[0].From, To: f.has[len(f.has)-1].To}
}

// superset is what is kept of a selector that matches all that another does.
type superset struct {
	entry *entry
	sel   *selection.Selection
	has   tile.Coverage // of what is wanted
}

// start makes f, with one waiter, the flight for a stretch of e. It is to be launched. The cache's
// mutex must be held.
func (c *Cache) start(ctx context.Context, e *entry, f *flight) *flight {
	f.entry, f.done = e, make(chan struct{})
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.waiters.Store(1)
	f.settled = tile.Span{From: max(f.From, f.moment.Settled.From), To: min(f.To, f.moment.Settled.To)}
	f.has = tile.Coverage(nil).With(f.settled, c.fetchedAt())
	e.flights = append(e.flights, f)
	ahead := f.fetch.Expected.Ahead
	f.fetch.Expected = c.expected(e, f.Span)
	f.fetch.Expected.Ahead = ahead
	c.flying.Add(1)
	return f
}

// launch has flights fly, those together that fetch the same times.
func (c *Cache) launch(flights []*flight) {
	up, ok := c.up.(Together)
	same := map[tile.Span][]*flight{}
	for _, f := range flights {
		if ok && len(flights) > 1 && f.from == fromUpstream {
			same[f.Span] = append(same[f.Span], f)
		} else {
			go c.fly(f)
		}
	}
	for _, together := range same {
		go c.flyTogether(up, together)
	}
}

// flyTogether has flights for the same times fly, each as soon as its samples have come.
func (c *Cache) flyTogether(up Together, flights []*flight) {
	asks := make([]selection.Ask, len(flights))
	for i, f := range flights {
		asks[i] = selection.Ask{Ctx: f.ctx, Matchers: f.entry.matchers, Fetch: f.fetch}
	}
	flown := make([]bool, len(flights))
	s := flights[0].Span
	err := parallel.Rescue(func() error {
		up.FetchTogether(s.From, s.To-1, asks, func(i int, sel *selection.Selection) {
			flown[i], flights[i].came = true, sel
			go c.fly(flights[i])
		})
		return nil
	})
	if err != nil {
		c.log.Error("Panic while fetching for many selectors; each is fetched for alone", "err", err)
	}
	for i, f := range flights {
		if !flown[i] {
			go c.fly(f)
		}
	}
}

// fly fetches and keeps what f is for. Queries that have it do not wait until what is newer than all
// that is settled is kept, nor until samples that were replaced have been compared.
func (c *Cache) fly(f *flight) {
	defer c.flying.Add(-1)
	c.land(f)
	if f.replaced != nil {
		f.replaced()
	}
	if f.err == nil && len(f.has) > 0 && c.narrow(f) {
		c.keepOrDiscard(context.WithoutCancel(f.ctx), f)
	}
}

// narrow reports whether f is of nothing but what is newer than what is young already.
func (c *Cache) narrow(f *flight) bool { return f.From > f.moment.Now-c.fresh }

// land fetches what f is for. Queries see its tiles either under way or kept, never neither.
func (c *Cache) land(f *flight) {
	defer f.cancel()
	defer close(f.done)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.leaveEntry()
		c.tidy(f.entry)
	}()
	defer c.rescue(func(err error) { f.sel, f.err = nil, err })

	if f.err = c.bring(f); f.err != nil {
		return
	}
	f.has = f.has.Revised(revisions.Add(1))
	f.sel.SetDiscard(func() { c.discard(f.entry) })
	if len(f.has) > 0 && !c.narrow(f) {
		f.sel = f.sel.WithMemos(f.has.Until(c.tile)) // which what is kept of it shares
		c.keepOrDiscard(f.ctx, f)
	}
}

// bring gets what f is for, and finds out what of it is to be kept.
func (c *Cache) bring(f *flight) (err error) {
	if err = c.restore(f); err != nil || f.restored || c.subsume(f) {
		return err
	}
	if err = f.ctx.Err(); err != nil {
		return err
	}
	if !f.fetch.Expected.Ahead {
		tiles := tile.Spans{f.settled}.Tiles(c.tile)
		c.metrics.misses.add(tiles)
		f.fetch.Stats.TilesFetched.Add(tiles)
		f.fetch.Stats.Fetches.Add(1)
	}
	if f.sel, f.ws, err = c.fetch(f); err != nil {
		return err
	}
	f.fetch.Stats.FetchedBytes.Add(f.sel.PayloadBytes())
	if c.doubts(f) || len(f.ws) > 0 {
		f.has = nil
	} else {
		c.keepYoung(f)
	}
	return nil
}

// rescue turns a panic into an error. It is to be deferred.
func (c *Cache) rescue(failed func(error)) {
	if p := recover(); p != nil {
		c.log.Error("Panic while fetching", "panic", p, "stack", string(debug.Stack()))
		failed(fmt.Errorf("fetching: %w", &parallel.Panic{Value: p, Stack: debug.Stack()}))
	}
}

// keepOrDiscard keeps what f brought, unless ctx ends before.
func (c *Cache) keepOrDiscard(ctx context.Context, f *flight) {
	defer c.rescue(func(error) { c.discard(f.entry) })
	if err := c.keep(ctx, f.entry, f); err != nil && ctx.Err() == nil {
		c.log.Warn("Could not keep what was fetched", "err", err)
		c.discard(f.entry)
	}
}

// subsume answers f from the wider selector that it has, if it has one and that
// is certain to be right.
func (c *Cache) subsume(f *flight) bool {
	if f.wider == nil {
		return false
	}
	sel, ok := matching.Narrowed(f.wider.sel, f.entry.matchers, f.wider.entry.matchers, c.lacks)
	if !ok {
		return false
	}
	// Exactly, for beside it there may be what is too old.
	sel, err := sel.Slice(f.From, f.To-1).Cut(f.ctx, f.From, f.To-1)
	if err != nil {
		return false
	}
	f.sel, f.has = sel, f.wider.has
	tiles := tile.Spans{f.Span}.Tiles(c.tile)
	c.metrics.subsumed.add(tiles)
	f.fetch.Stats.TilesSubsumed.Add(tiles)
	c.mu.Lock()
	f.entry.parent = f.wider.entry // if it is corrupt, so is that
	c.mu.Unlock()
	return true
}

// leaveEntry takes f off the list of flights that new queries may join. The
// cache's mutex must be held.
func (f *flight) leaveEntry() {
	f.entry.flights = slices.DeleteFunc(f.entry.flights, func(other *flight) bool { return other == f })
}

// join adds a waiter, unless the last one has left.
func (f *flight) join() bool {
	n := f.waiters.Load()
	for n > 0 && !f.waiters.CompareAndSwap(n, n+1) {
		n = f.waiters.Load()
	}
	return n > 0
}

// await waits until all flights have landed or one has failed. In that case,
// or when ctx ends, the others are left.
func (c *Cache) await(ctx context.Context, flights []*flight) error {
	for i, f := range flights {
		select {
		case <-f.done:
			if f.err != nil {
				c.leave(ctx, flights[i+1:])
				return f.err
			}
		case <-ctx.Done():
			c.leave(ctx, flights[i:])
			return ctx.Err()
		}
	}
	return nil
}

// leave stops waiting for flights. Those that nobody else waits for are
// cancelled, and have ended when it returns, but for those that read files, as a disk that hangs
// holds up no query beyond its time, and but for a query that is late already.
func (c *Cache) leave(ctx context.Context, flights []*flight) {
	var ended []*flight
	for _, f := range flights {
		if f.waiters.Add(-1) == 0 {
			f.cancel() // before the mutex, which each flight of a query of hundreds may wait for
			ended = append(ended, f)
		}
	}
	c.mu.Lock()
	for _, f := range ended {
		f.leaveEntry()
		c.tidy(f.entry)
	}
	c.mu.Unlock()
	for _, f := range ended {
		if f.from != fromDisk && ctx.Err() != context.DeadlineExceeded {
			<-f.done
		}
	}
}
