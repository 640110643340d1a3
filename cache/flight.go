package cache

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/selection"
)

// flight is one fetch, or one look at what is on disk or kept of another selector,
// shared by all queries that need something of it. It runs
// in a goroutine of its own, in a context that ends when nobody waits any more,
// so that no query fails because another was cancelled.
type flight struct {
	ctx      context.Context
	stats    *QueryStats // of the query which it was started for, or nil
	entry    *entry
	whole    tile.Span   // what is fetched
	end      int64       // that of the query which it was started for
	ahead    bool        // whether it was started for none
	old      tile.Span   // the tiles of it that will be kept
	moment   tile.Moment // when it started
	files    bool        // whether whole is on disk
	superset *superset   // what is kept of a wider selector that covers whole; nil if there is none
	cancel   context.CancelFunc
	done     chan struct{}   // closed when it has landed
	read     <-chan struct{} // closed when the query which it was started for is done; nil for never

	revision uint64 // of what it brings

	waiters atomic.Int32 // none once it is cancelled: no query joins it then
	void    bool         // what it brings was dropped meanwhile and is not to be kept; guarded by the cache's mutex

	came *selection.Selection // what was fetched together with others; nil if that is not

	// The result, to be read when it has landed.
	restored bool          // whether it is from files
	doubted  bool          // whether it is empty and not believed yet
	has      tile.Coverage // when old and young were fetched
	young    tile.Span     // what comes behind old and is kept, too; see young.go
	narrow   bool          // whether it is of nothing but what is newer than what is young already
	replaced func()        // compares it with what it has replaced; nil if that is nothing
	sel      *selection.Selection
	ws       annotations.Annotations
	err      error
}

// kept is what of f is kept.
func (f *flight) kept() tile.Span {
	switch {
	case f.young.Empty():
		return f.old
	case f.old.Empty():
		return f.young
	}
	return tile.Span{From: f.old.From, To: f.young.To}
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
	f.entry, f.stats, f.done = e, statsFrom(ctx), make(chan struct{})
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.waiters.Store(1)
	f.revision = revisions.Add(1)
	f.old = tile.Span{From: max(f.whole.From, f.moment.Settled.From), To: min(f.whole.To, f.moment.Settled.To)}
	f.has = tile.Coverage(nil).With(f.old, c.fetchedAt())
	e.flights = append(e.flights, f)
	x := c.expected(e, f.whole)
	x.Ahead = f.ahead
	f.ctx = selection.Expect(f.ctx, x)
	if f.stats != nil {
		f.ctx = selection.OnRequest(f.ctx, f.stats.requests.Add)
	}
	c.flying.Add(1)
	return f
}

// launch has flights fly, those together that fetch the same times.
func (c *Cache) launch(flights []*flight) {
	up, ok := c.up.(Together)
	same := map[tile.Span][]*flight{}
	for _, f := range flights {
		if ok && len(flights) > 1 && !f.files && f.superset == nil {
			same[f.whole] = append(same[f.whole], f)
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
		asks[i] = selection.Ask{Ctx: f.ctx, Matchers: f.entry.matchers}
	}
	flown := make([]bool, len(flights))
	s := flights[0].whole
	err := rescue.Do(func() error {
		up.FetchTogether(s.From, s.To-1, asks, func(i int, sel *selection.Selection) {
			flown[i], flights[i].came = true, sel
			if sel == nil {
				go c.fly(flights[i])
			} else {
				c.fly(flights[i])
			}
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

// fly fetches and keeps what f is for. Queries see its tiles either under way
// or kept, never neither.
func (c *Cache) fly(f *flight) {
	var late func() // what queries need not wait for
	defer func() {
		if late == nil {
			c.flying.Add(-1)
			return
		}
		go func() {
			defer c.flying.Add(-1)
			late()
		}()
	}()
	defer f.cancel()
	defer close(f.done)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.leaveEntry()
		c.tidy(f.entry)
	}()
	defer c.rescue(func(err error) { f.sel, f.err = nil, err })

	if f.err = c.restore(f.ctx, f); f.err != nil {
		return
	}
	if !f.restored && !c.subsume(f) {
		if f.err = f.ctx.Err(); f.err != nil {
			return
		}
		if f.files {
			c.countFetch(f) // the files are gone or damaged
		}
		f.sel, f.ws, f.err = c.fetch(f)
		if f.err != nil {
			return
		}
		if f.stats != nil {
			f.stats.FetchedBytes.Add(f.sel.PayloadBytes())
		}
		c.doubt(f)
	}
	c.keepYoung(f)
	f.has = f.has.Revised(f.revision)
	f.sel.SetDiscard(func() { c.discard(f.entry) })
	switch {
	case f.kept().Empty() || len(f.ws) > 0 || f.doubted:
	case f.narrow:
		late = func() {
			select {
			case <-f.read: // it may want all cores until then
			case <-time.After(patience):
			}
			defer c.rescue(func(error) { c.discard(f.entry) })
			c.keepOrDiscard(context.WithoutCancel(f.ctx), f)
		}
	default:
		f.sel = f.sel.WithMemos(f.has.Until(c.tile)) // which what is kept of it shares
		c.keepOrDiscard(f.ctx, f)
		if f.replaced != nil {
			late = f.replaced
		}
	}
}

// rescue turns a panic into an error. It is to be deferred.
func (c *Cache) rescue(failed func(error)) {
	if p := recover(); p != nil {
		c.log.Error("Panic while fetching", "panic", p, "stack", string(debug.Stack()))
		failed(fmt.Errorf("fetching: %w", &rescue.Panic{Value: p, Stack: debug.Stack()}))
	}
}

// keepOrDiscard keeps what f brought, unless ctx ends before.
func (c *Cache) keepOrDiscard(ctx context.Context, f *flight) {
	if err := c.keep(ctx, f.entry, f); err != nil && ctx.Err() == nil {
		c.log.Warn("Could not keep what was fetched", "err", err)
		c.discard(f.entry)
	}
}

// subsume answers f from the wider selector that it has, if it has one and that
// is certain to be right.
func (c *Cache) subsume(f *flight) bool {
	if f.superset == nil {
		return false
	}
	tiles := tile.Spans{f.whole}.Tiles(c.tile)
	sel, ok := matching.Narrowed(f.superset.sel, f.entry.matchers, f.superset.entry.matchers, c.lacks)
	if ok {
		var err error
		// Exactly, for beside it there may be what is too old.
		if sel, err = sel.Slice(f.whole.From, f.whole.To-1).Cut(f.ctx, f.whole.From, f.whole.To-1); err == nil {
			f.sel, f.has = sel, f.superset.has
			c.metrics.subsumed.add(tiles)
			if f.stats != nil {
				f.stats.TilesSubsumed.Add(tiles)
			}
			c.mu.Lock()
			f.entry.parent = f.superset.entry // if it is corrupt, so is that
			c.mu.Unlock()
			return true
		}
	}
	c.countFetch(f)
	return false
}

// countFetch counts f, which was not to be one, as a fetch.
func (c *Cache) countFetch(f *flight) {
	tiles := tile.Spans{f.whole}.Tiles(c.tile)
	c.metrics.misses.add(tiles)
	if f.stats != nil {
		f.stats.TilesFetched.Add(tiles)
		f.stats.Fetches.Add(1)
	}
}

// patience is how long what a query need not wait for waits for the query.
const patience = time.Second

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
		if !f.files && ctx.Err() != context.DeadlineExceeded {
			<-f.done
		}
	}
}
