package cache

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/rescue"
)

// Prefetch is the budget of fetching what has not been asked for yet, of selectors that
// are asked for again and again with the newest samples: the newest tiles, and what is
// young when it is about to be fetched again. It protects the upstream, and comes on top
// of what queries fetch.
type Prefetch struct {
	Requests    float64 // a second; 0 means no prefetching
	Bytes       int64   // of chunks and labels, a second; 0 means no bound
	Concurrency int     // requests at one time; 0 means one
}

// longestPrefetch is the longest stretch that is prefetched, in ms: what lacks
// more was not looked at for long.
const longestPrefetch = 6 * tile.HalfLife

// afterFailure is for how long nothing is prefetched after a request that failed.
const afterFailure = time.Minute

// prefetcher fetches behind the queries' backs.
type prefetcher struct {
	c      *Cache
	budget Prefetch
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	next time.Time // when the budget has room for the next request
}

// newPrefetcher starts one, or returns nil if there is no budget. pause is how often it
// looks for something to do.
func newPrefetcher(c *Cache, budget Prefetch, pause time.Duration) *prefetcher {
	if budget.Requests <= 0 || c.limit == 0 {
		return nil
	}
	budget.Concurrency = max(budget.Concurrency, 1)
	ctx, cancel := context.WithCancel(context.Background())
	p := &prefetcher{c: c, budget: budget, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for next := pause; p.sleep(ctx, next); {
			if next = pause; !p.round(ctx) {
				next = max(pause, afterFailure)
			}
		}
	}()
	return p
}

// close ends what p is at.
func (p *prefetcher) close() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

func (p *prefetcher) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// round fetches what there is to be, the most wanted first, until a request fails. It
// reports whether none did.
func (p *prefetcher) round(ctx context.Context) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.fetchAll(ctx, stop)
	return ctx.Err() == nil
}

// fetchAll fetches what there is to be until ctx ends, and calls failed when a request
// does.
func (p *prefetcher) fetchAll(ctx context.Context, failed func()) {
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, p.budget.Concurrency)
	for _, e := range p.c.wanted() {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !p.wait(ctx) {
			return
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := rescue.Do(func() error { return p.fetch(ctx, e) }); err != nil {
				failed()
			}
		})
	}
}

// wait waits until the budget has room for a request.
func (p *prefetcher) wait(ctx context.Context) bool {
	for {
		p.mu.Lock()
		left := time.Until(p.next)
		if left <= 0 {
			p.spend(time.Duration(float64(time.Second) / p.budget.Requests))
			p.mu.Unlock()
			return true
		}
		p.mu.Unlock()
		if !p.sleep(ctx, left) {
			return false
		}
	}
}

// spend makes the next request wait for longer. The mutex must be held.
func (p *prefetcher) spend(d time.Duration) {
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(d)
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

// due is what to fetch of e before it is asked for; empty for nothing. The cache's mutex
// must be held.
func (c *Cache) due(e *entry) tile.Span {
	m := c.moment()
	usable := e.covered.Usable(m)
	if len(usable) == 0 || len(e.flights) > 0 {
		return tile.Span{}
	}
	if s := c.lag(usable.Old(), m); !s.Empty() {
		return s
	}
	return c.ageing(e, usable, m)
}

// lag is what is lacking between what is covered and the newest tile that is kept.
func (c *Cache) lag(covered tile.Coverage, m tile.Moment) tile.Span {
	if len(covered) == 0 {
		return tile.Span{}
	}
	s := tile.Span{From: covered[len(covered)-1].To, To: tile.Floor(m.Settled.To, c.tile)}
	if s.To-s.From > longestPrefetch {
		return tile.Span{}
	}
	return s
}

// ageing is all that was not settled when it was fetched, until now, if some of that
// will soon be too old to answer, and e was looked at lately: so no look has to wait for
// it.
func (c *Cache) ageing(e *entry, usable tile.Coverage, m tile.Moment) tile.Span {
	soon := func(s tile.Stretch) bool { return s.At < m.Recent+c.recheck/4 }
	if e.looked < m.Now-2*c.recheck || !slices.ContainsFunc(usable.Young(), soon) {
		return tile.Span{}
	}
	from := m.Settled.To
	if old := usable.Old(); len(old) > 0 {
		from = min(from, old[len(old)-1].To)
	}
	return tile.Span{From: from, To: m.Now + 1}
}

// fetch brings e up to date.
func (p *prefetcher) fetch(ctx context.Context, e *entry) error {
	c := p.c
	c.mu.Lock()
	s := c.due(e)
	if e.removed || s.Empty() {
		c.mu.Unlock()
		return nil // others were quicker
	}
	e.used = e.used.With(s, max(e.tail, e.used.WorthOf(s)))
	f := c.start(ctx, e, &flight{whole: s, ahead: true, moment: c.moment()})
	c.mu.Unlock()
	c.launch([]*flight{f})
	if err := c.await(ctx, []*flight{f}); err != nil {
		return err
	}
	bytes := f.sel.PayloadBytes()
	c.metrics.prefetches.add(1)
	c.metrics.prefetched.add(bytes)
	if p.budget.Bytes > 0 {
		p.mu.Lock()
		p.spend(time.Duration(float64(bytes) / float64(p.budget.Bytes) * float64(time.Second)))
		p.mu.Unlock()
	}
	return nil
}
