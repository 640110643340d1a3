package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// flight brings one stretch of a selector: from upstream, from files, or from what is kept of another
// selector. It is shared by all queries that need something of it. It runs in a goroutine of its own, in
// a context that ends when no query waits any more, so that none fails because another was cancelled.
type flight struct {
	part            // what it brings; from where may change under the cache's mutex
	entry *entry    // of the selector
	asked *question // which it was started for
	drops uint64    // of the entry when it started: if there are more, what it brings is not to be kept
	fetch selection.Fetch

	settled tile.Span // what of it is old enough to be kept by tiles
	narrow  bool      // whether it is of nothing but what is newer than what is young already

	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has landed
	waiters atomic.Int32  // none once it is cancelled: no query joins it then

	// The result, to be read when it has landed.
	sel *selection.Selection
	ws  annotations.Annotations
	err error
	has tile.Coverage // what of it is to be kept
}

// start makes a flight, with one waiter, for a part of what is asked about e. It is to be launched. The
// cache's mutex must be held.
func (c *Cache) start(e *entry, p part, q *question) *flight {
	f := &flight{part: p, entry: e, asked: q, drops: e.drops, fetch: q.fetch, done: make(chan struct{})}
	f.settled, f.narrow = p.And(q.at.Settled), p.From > q.at.Now-c.fresh
	f.fetch.Expected = selection.Expectation{}
	if e.sel != nil {
		f.fetch.Expected = c.expected(e, p.Span)
	}
	f.fetch.Expected.Ahead = q.fetch.Expected.Ahead
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(q.ctx))
	f.waiters.Store(1)
	// Rounded down to a 64th of the greatest age: tiles fetched one after another make few stretches.
	// Without a greatest age it does not matter.
	fetched := int64(0)
	if c.maxAge > 0 {
		fetched = tile.Floor(q.at.Now, max(c.maxAge/64, 1))
	}
	f.has = tile.Coverage(nil).With(f.settled, fetched)
	e.flights = append(e.flights, f)
	c.flying.Add(1)
	return f
}

// launch starts flights. Flights that fetch the same times share requests, and each flies once its
// samples have come.
func (c *Cache) launch(flights []*flight) {
	up, ok := c.up.(Together)
	same := map[tile.Span][]*flight{}
	for _, f := range flights {
		if ok && len(flights) > 1 && f.from == fromUpstream {
			same[f.Span] = append(same[f.Span], f)
		} else {
			go c.fly(f, nil)
		}
	}
	for s, together := range same {
		asks := make([]selection.Ask, len(together))
		for i, f := range together {
			asks[i] = selection.Ask{Ctx: f.ctx, Matchers: f.asked.matchers, Fetch: f.fetch}
		}
		go func() {
			flown := make([]bool, len(together))
			_ = c.rescued(func() error {
				up.FetchTogether(s.From, s.To-1, asks, func(i int, sel *selection.Selection) {
					if flown[i] = true; sel == nil {
						go c.fly(together[i], nil)
						return
					}
					c.fly(together[i], sel)
				})
				return nil
			})
			for i, f := range together {
				if !flown[i] {
					go c.fly(f, nil)
				}
			}
		}()
	}
}

// Every flight has a revision of its own, which the tiles that it brings have as
// long as they are kept. So tiles that were fetched again, because they were too
// old, dropped or evicted, or that come from disk or a wider selector, have another
// one than before, whether or not their samples have changed.

// revisions is the last revision given away, in all caches.
var revisions atomic.Uint64

// fly brings what f is for, unless it came together with what others are for, and keeps it. Queries see
// its tiles either under way or kept, never neither. They do not wait until what is newer than all that
// is settled is kept, nor until samples that were replaced have been compared.
func (c *Cache) fly(f *flight, came *selection.Selection) {
	defer c.flying.Add(-1)
	compare := func() error { return nil }
	if f.err = c.rescued(func() error { return c.bring(f, came) }); f.err != nil {
		f.sel, f.has = nil, nil
	} else {
		f.has = f.has.Revised(revisions.Add(1))
		f.sel.OnDiscard = func() { c.discard(f.entry) }
	}
	if len(f.has) > 0 && !f.narrow {
		f.sel = f.sel.WithMemos(f.has.Until(c.tile)) // which what is kept of it shares
		compare = c.keep(f.ctx, f)
	}
	c.mu.Lock()
	c.retire(f)
	c.mu.Unlock()
	close(f.done)
	f.cancel()
	if len(f.has) > 0 && f.narrow {
		compare = c.keep(context.WithoutCancel(f.ctx), f)
	}
	_ = c.rescued(compare)
}

// rescued calls do. A panic is an error, and is logged.
func (c *Cache) rescued(do func() error) error {
	err := parallel.Rescue(do)
	if p := (*parallel.Panic)(nil); errors.As(err, &p) {
		c.log.Error("Panic while fetching", "panic", p.Value, "stack", string(p.Stack))
	}
	return err
}

// bring gets what f is for, from where it is if that is still so and else from upstream, and finds out
// what of it is to be kept.
func (c *Cache) bring(f *flight, came *selection.Selection) (err error) {
	stats := f.fetch.Stats
	switch tiles := f.Tiles(c.tile); f.from {
	case fromDisk:
		if err = c.restore(f); err != nil || f.sel != nil {
			return err
		}
	case fromWider:
		if c.subsume(f) {
			c.metrics.subsumed.Add(float64(tiles))
			c.metrics.hitBytes.Add(float64(f.sel.PayloadBytes()))
			stats.TilesSubsumed.Add(tiles)
			f.fetch.Own.TilesSubsumed.Add(tiles)
			return nil
		}
	}
	if err = f.ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	f.from = fromUpstream
	c.mu.Unlock()
	if !f.fetch.Expected.Ahead {
		tiles := f.settled.Tiles(c.tile)
		c.metrics.misses.Add(float64(tiles))
		stats.TilesFetched.Add(tiles)
		f.fetch.Own.TilesFetched.Add(tiles)
		stats.Fetches.Add(1)
	}
	until := int64(math.MaxInt64)
	if up, ok := c.up.(Belated); ok {
		until = up.Complete()
	}
	start := time.Now()
	if f.sel = came; came == nil {
		f.sel, f.ws, err = c.up.Fetch(f.ctx, f.From, f.To-1, f.asked.matchers, f.fetch)
	}
	if err == nil && f.sel == nil {
		err = fmt.Errorf("upstream returned neither a selection nor an error for %d to %d ms", f.From, f.To-1)
	}
	c.metrics.fetches.Inc()
	c.metrics.seconds.Observe(time.Since(start).Seconds())
	if err != nil {
		c.metrics.failures.Inc()
		return err
	}
	own := *f.sel // the upstream may hand out one selection more than once
	f.sel = &own
	c.metrics.bytes.Add(float64(f.sel.PayloadBytes()))
	stats.FetchedBytes.Add(f.sel.PayloadBytes())
	f.fetch.Own.FetchedBytes.Add(f.sel.PayloadBytes())
	if c.doubts(f) || len(f.ws) > 0 {
		f.has = nil
	} else if until < f.To {
		f.has = f.has.Within(tile.Span{From: tile.MinTime, To: tile.Floor(until, c.tile)})
	} else if f.To > f.asked.at.Settled.To {
		c.keepYoung(f)
	}
	return nil
}

// keep joins what f brought and is to be kept to what its entry has, in place of what that has of the
// same times, if there is room for it, unless ctx ends before. What is too old goes. Queries that hold
// the former selection are not disturbed. What it returns compares what was kept with what has taken its
// place.
func (c *Cache) keep(ctx context.Context, f *flight) (compare func() error) {
	compare = func() error { return nil }
	err := c.rescued(func() error {
		fresh := tile.Span{From: f.has[0].From, To: f.has[len(f.has)-1].To}
		brought, err := f.sel.Cut(ctx, fresh.From, fresh.To-1)
		if err != nil {
			return err
		}
		brought = brought.Compact(0.5)
		var n newcomer
		var had tile.Coverage
		for kept := false; !kept; {
			c.mu.Lock()
			n = newcomer{entry: f.entry, drops: f.drops, base: f.entry.sel, fresh: fresh, worth: f.entry.used.WorthOf(fresh)}
			had = f.entry.covered
			c.mu.Unlock()
			usable := had.Usable(c.moment()) // what was kept since f started stays
			if f.narrow && len(usable.Missing(fresh)) == 0 {
				return nil // others were quicker
			}
			n.sel, n.covered = brought, usable.Without(fresh)
			if len(n.covered) > 0 {
				rest, err := tile.Restrict(ctx, n.base, had, n.covered)
				if err != nil {
					return err
				}
				if n.sel, err = tile.Join(ctx, []tile.Input{{From: n.covered[0].From, Sel: rest}, {From: fresh.From, Sel: brought}}); err != nil {
					return err
				}
			}
			for _, s := range f.has {
				n.covered = n.covered.Having(s)
			}
			n.sel = n.sel.WithMemos(n.covered.Until(c.tile))
			switch kept, err = c.put(&n); {
			case errors.Is(err, errChanged): // by another flight; what that brought stays, too
			case err != nil || !kept:
				return err
			}
		}
		if c.disk != nil && f.from != fromDisk {
			c.saver.Save(f.entry.key)
		}
		if n.base == nil || f.from != fromUpstream {
			return nil
		}
		if old := had.Old().Within(f.settled); len(old) > 0 {
			compare = func() error {
				if n, first := selection.Changed(n.base, brought, old.Pairs()); n > 0 {
					c.metrics.corrected.Add(float64(n))
					c.log.Warn("The upstream has other samples than were cached of it, which are replaced", "selector", f.entry.key, "series", n, "first", first)
				}
				return nil
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		c.log.Warn("Could not keep what was fetched", "err", err)
		c.discard(f.entry)
	}
	return compare
}

// subsume answers f from the wider selector that it has, if that is certain to be right.
func (c *Cache) subsume(f *flight) bool {
	sel, ok := matching.Narrowed(f.wider.sel, f.asked.matchers, f.wider.entry.matchers, c.lacks)
	if !ok {
		return false
	}
	// Exactly, for beside it there may be what is too old.
	sel, err := sel.Cut(f.ctx, f.From, f.To-1)
	if err != nil {
		return false
	}
	f.sel, f.has = sel, f.wider.has
	c.mu.Lock()
	f.entry.parent = f.wider.entry // if it is corrupt, so is that
	c.mu.Unlock()
	return true
}

// maxLacking is the most entries that lacks looks at. Each takes about 0.5 µs with the cache's
// mutex held.
const maxLacking = 1024

// lacks reports whether some kept series is known to lack a label. It looks at
// two series of each of some entries. One that is not found costs a fetch, never a wrong answer.
func (c *Cache) lacks(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range c.sample(maxLacking) {
		if e.sel.NumSeries() == 0 {
			continue
		}
		if !e.sel.Labels(0).Has(name) || !e.sel.Labels(e.sel.NumSeries()-1).Has(name) {
			return true
		}
	}
	return false
}

// retire takes f off the flights that new queries may join. The cache's mutex must be held.
func (c *Cache) retire(f *flight) {
	f.entry.flights = slices.DeleteFunc(f.entry.flights, func(other *flight) bool { return other == f })
	c.tidy(f.entry)
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

// leave stops waiting for flights. Flights that no other query waits for are
// cancelled, and have ended when it returns, but for flights that read files, as a disk that hangs
// holds up no query beyond its time, and but for a query that is late already.
func (c *Cache) leave(ctx context.Context, flights []*flight) {
	var ended []*flight
	for _, f := range flights {
		if f.waiters.Add(-1) == 0 {
			f.cancel() // before the mutex, which each flight of a query of hundreds may wait for
			ended = append(ended, f)
		}
	}
	var awaited []*flight
	c.mu.Lock()
	for _, f := range ended {
		c.retire(f)
		if f.from != fromDisk && ctx.Err() != context.DeadlineExceeded {
			awaited = append(awaited, f)
		}
	}
	c.mu.Unlock()
	for _, f := range awaited {
		<-f.done
	}
}
