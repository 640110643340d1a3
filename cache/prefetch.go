package cache

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// Fetched ahead are the newest tiles of selectors that are asked for again and again with the newest
// samples, and what is young of them when it is about to be fetched again.

// Budget bounds fetching ahead. It comes on top of what queries fetch.
type Budget struct {
	Requests float64 // a second, one at a time; 0 means no prefetching
	Bytes    int64   // of chunks and labels, a second; 0 means no bound
}

// longestPrefetch is the longest stretch that is prefetched, in ms: what lacks
// more was not looked at for long.
const longestPrefetch = 6 * tile.HalfLife

// afterFailure is for how long nothing is prefetched after a request that failed.
const afterFailure = time.Minute

// prefetcher fetches ahead within a budget.
type prefetcher struct {
	c *Cache
	Budget
	next time.Time // when the budget has room for the next request
}

// startPrefetching fetches ahead every pause. It returns what ends that.
func (c *Cache) startPrefetching(budget Budget, pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p := &prefetcher{c: c, Budget: budget}
	go func() {
		defer close(done)
		for next := pause; sleep(ctx, next); {
			if next = pause; p.round(ctx) != nil {
				next = max(pause, afterFailure)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// round fetches what there is to be until a request fails or ctx ends.
func (p *prefetcher) round(ctx context.Context) error {
	for _, e := range p.c.wanted() {
		err := parallel.Rescue(func() error {
			if !sleep(ctx, p.spend(float64(time.Second)/p.Requests)) {
				return ctx.Err()
			}
			bytes, err := p.c.fetchAhead(ctx, e)
			if p.Bytes > 0 {
				p.spend(float64(bytes) / float64(p.Bytes) * float64(time.Second))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// spend takes n ns off the budget, and returns how long to wait until it had room for them.
func (p *prefetcher) spend(ns float64) time.Duration {
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	left := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(ns))
	return left
}

// wanted lists the entries that are asked for again and again with the newest
// samples and for which there is something to fetch, the most wanted first.
func (c *Cache) wanted() []*entry {
	now, tails := c.now().UnixMilli(), map[*entry]int64{}
	for e := range c.all() {
		if e.tail > now && !c.due(e).Empty() {
			tails[e] = e.tail
		}
	}
	return slices.SortedFunc(maps.Keys(tails), func(a, b *entry) int {
		return cmp.Or(cmp.Compare(tails[b], tails[a]), cmp.Compare(a.key, b.key))
	})
}

// due is what to fetch of e before it is asked for: what it lacks up to the newest tile that is kept; or
// all that was not settled when it was fetched, until now, if some of that will soon be too old to answer
// and e was looked at lately. It is empty for nothing. The cache's mutex must be held.
func (c *Cache) due(e *entry) tile.Span {
	m := c.moment()
	usable := e.covered.Usable(m)
	if len(usable) == 0 || len(e.flights) > 0 {
		return tile.Span{}
	}
	s := tile.Span{From: m.Settled.To, To: m.Settled.To}
	if old := usable.Old(); len(old) > 0 {
		s.From = min(s.From, old[len(old)-1].To)
	}
	soon := slices.ContainsFunc(usable, func(s tile.Stretch) bool { return s.Young && s.At < m.Recent+c.recheck/4 })
	switch {
	case !s.Empty() && s.To-s.From <= longestPrefetch:
	case soon && e.looked >= m.Now-2*c.recheck:
		s.To = m.Now + 1
	default:
		return tile.Span{}
	}
	return s
}

// fetchAhead brings e up to date, and returns how many bytes came.
func (c *Cache) fetchAhead(ctx context.Context, e *entry) (int64, error) {
	c.mu.Lock()
	s := c.due(e)
	if e.removed || s.Empty() {
		c.mu.Unlock()
		return 0, nil // others were quicker
	}
	e.used = e.used.With(s, max(e.tail, e.used.WorthOf(s)))
	ahead := selection.Fetch{Request: selection.Request{Stats: &selection.Stats{}}, Own: &selection.Stats{}, Expected: selection.Expectation{Ahead: true}}
	f := c.start(e, part{Span: s, from: fromUpstream}, &question{s, e.matchers, e.key, c.moment(), ctx, ahead})
	c.mu.Unlock()
	c.launch([]*flight{f})
	if err := c.await(ctx, []*flight{f}); err != nil {
		return 0, err
	}
	bytes := f.sel.PayloadBytes()
	c.metrics.prefetches.Inc()
	c.metrics.prefetched.Add(float64(bytes))
	return bytes, nil
}
