package cache

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cache/prefetch"
	"github.com/promwarp/promwarp/cache/tile"
)

// Fetched ahead are the newest tiles of selectors that are asked for again and again with the newest
// samples, and what is young of them when it is about to be fetched again.

// longestPrefetch is the longest stretch that is prefetched, in ms: what lacks
// more was not looked at for long.
const longestPrefetch = 6 * tile.HalfLife

// prefetcher returns what fetches ahead within a budget.
func (c *Cache) prefetcher(budget prefetch.Budget) *prefetch.Prefetcher[*entry] {
	return &prefetch.Prefetcher[*entry]{Wanted: c.wanted, Fetch: c.fetchAhead, Budget: budget}
}

// startPrefetching starts fetching ahead, if there is a budget. pause is how often the cache looks
// for something to do.
func (c *Cache) startPrefetching(budget prefetch.Budget, pause time.Duration) {
	if budget.Requests > 0 && c.limit > 0 {
		c.prefetch = c.prefetcher(budget)
		c.prefetch.Start(pause)
	}
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

// fetchAhead brings e up to date, and returns how many bytes came.
func (c *Cache) fetchAhead(ctx context.Context, e *entry) (int64, error) {
	c.mu.Lock()
	s := c.due(e)
	if e.removed || s.Empty() {
		c.mu.Unlock()
		return 0, nil // others were quicker
	}
	e.used = e.used.With(s, max(e.tail, e.used.WorthOf(s)))
	f := c.start(ctx, e, &flight{whole: s, ahead: true, moment: c.moment()})
	c.mu.Unlock()
	c.launch([]*flight{f})
	if err := c.await(ctx, []*flight{f}); err != nil {
		return 0, err
	}
	bytes := f.sel.PayloadBytes()
	c.metrics.prefetches.add(1)
	c.metrics.prefetched.add(bytes)
	return bytes, nil
}
