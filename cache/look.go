package cache

import (
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection"
)

// settled is the stretch of time whose tiles are kept.
func (c *Cache) settled() span {
	to := c.horizon()
	from := int64(2 * minTime) // before all that is asked for
	if c.retention > 0 {
		from = min(to, floor(c.now().UnixMilli()-c.retention+c.tile-1, c.tile))
	}
	return span{from, to}
}

// horizon is the end of what is kept, in ms: that of a tile as long as what is
// younger is no longer than one, as an upstream sends whole chunks best, and
// otherwise that of a step.
func (c *Cache) horizon() int64 {
	if c.limit == 0 {
		return minTime
	}
	now := c.now().UnixMilli()
	if whole := floor(now-c.fresh, c.tile); now-whole <= c.tile {
		return whole
	}
	return floor(now-c.fresh, c.step)
}

// oldest is the earliest time of fetching (ms) of what still answers.
func (c *Cache) oldest() int64 {
	if c.maxAge == 0 {
		return math.MinInt64
	}
	return c.now().UnixMilli() - c.maxAge
}

// fetchedAt is the time of a fetch that begins now, in ms. It is rounded down to
// a 64th of the greatest age, so that tiles fetched one after another make few
// stretches. Where there is no greatest age it does not matter.
func (c *Cache) fetchedAt() int64 {
	if c.maxAge == 0 {
		return 0
	}
	return floor(c.now().UnixMilli(), max(c.maxAge/64, 1))
}

// lookup is what one query found: what was kept, and the flights that bring
// what was not.
type lookup struct {
	entry   *entry
	sel     *selection.Selection // nil when nothing was kept
	covered coverage             // what sel covers
	settled span
	oldest  int64 // see Cache.oldest
	tile    int64 // ms
	old     span  // the tiles asked for that are kept or are to be kept
	more    bool  // whether something that is not kept was asked for, too
	flights []*flight
}

// look finds the entry of a selector and joins or starts the flights for what
// it lacks of want.
func (c *Cache) look(ctx context.Context, h *holds, want span, key string, matchers []*labels.Matcher) lookup {
	settled := c.settled()
	ancient, rest := want.split(settled.from)
	old, tail := rest.split(settled.to)
	old, _ = old.widen(c.tile).split(settled.to)

	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.use(key, matchers)
	now := c.now().UnixMilli()
	asked := span{want.from, min(want.to, now+1)}.widen(c.tile) // with what is going to be kept
	e.used = e.used.used(asked, now)
	if !tail.empty() {
		e.tail = usedAgain(e.tail, now)
	}
	h.add(e, old)
	l := lookup{
		entry: e, sel: e.sel, covered: e.covered, settled: settled, oldest: c.oldest(), tile: c.tile, old: old,
		more: !tail.empty() || !ancient.empty(),
	}
	missing := l.covered.usable(settled, l.oldest, c.tile).all().missing(old)
	hit := spans{old}.tiles(c.tile) - missing.tiles(c.tile)

	// Join what is under way.
	shared := 0
	for _, f := range e.flights {
		rest := missing.without(f.old)
		helps := !slices.Equal(rest, missing)
		// A flight that ends elsewhere may be of another moment; its youngest
		// stretch is only shared with queries for the very same end.
		if !tail.empty() && f.whole.to == tail.to && f.whole.from <= tail.from {
			tail, helps = span{}, true
		}
		if !ancient.empty() && f.whole.from <= ancient.from && f.whole.to >= ancient.to {
			ancient, helps = span{}, true
		}
		if helps {
			missing = rest
			f.waiters++
			shared++
			l.flights = append(l.flights, f)
		}
	}

	// Take what is on disk, and what a wider selector has.
	missed := missing.tiles(c.tile)
	for _, s := range c.onDisk(e, missing) {
		l.flights = append(l.flights, c.start(ctx, e, &flight{whole: s, settled: settled, files: true}, matchers))
		missing = missing.without(s)
	}
	restored := missed - missing.tiles(c.tile)
	subsumed := int64(0)
	if from, has := c.wider(e, missing, l.oldest); from != nil {
		for _, s := range has.all() {
			w := &wide{from, from.sel, has.within(s, l.oldest)}
			l.flights = append(l.flights, c.start(ctx, e, &flight{whole: s, settled: settled, wide: w}, matchers))
			missing = missing.without(s)
			subsumed += spans{s}.tiles(c.tile)
		}
	}

	// Start what is not; what is not kept together with the tiles beside it.
	missing = missing.with(ancient).with(tail)
	for _, s := range missing {
		l.flights = append(l.flights, c.start(ctx, e, &flight{whole: s, settled: settled}, matchers))
	}
	if len(l.flights) == 0 && l.sel == nil {
		l.sel = selection.Empty()
	}

	c.metrics.hits.add(hit + restored)
	c.metrics.misses.add(spans{old}.tiles(c.tile) - hit - restored - subsumed)
	c.metrics.shared.add(int64(shared))
	if qs := statsFrom(ctx); qs != nil {
		qs.TilesHit.Add(hit + restored)
		qs.TilesFetched.Add(spans{old}.tiles(c.tile) - hit - restored - subsumed)
		qs.Fetches.Add(int64(len(missing)))
		qs.SharedFetches.Add(int64(shared))
	}
	return l
}
