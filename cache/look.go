package cache

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection"
)

// lookup is what one query found: what was kept, and the flights that bring
// what was not.
type lookup struct {
	entry   *entry
	sel     *selection.Selection // nil when nothing was kept
	covered coverage             // what sel covers
	moment  moment
	kept    span // what was asked for that is kept or is to be kept
	more    bool // whether something that is not kept was asked for, too
	flights []*flight
}

// look finds the entry of a selector and joins or starts the flights for what
// it lacks of want.
func (c *Cache) look(ctx context.Context, h *holds, want span, key string, matchers []*labels.Matcher) lookup {
	m := c.moment()
	ancient, rest := want.split(m.settled.from)
	old, tail := rest.split(m.settled.to)
	old, _ = old.widen(c.tile).split(m.settled.to)

	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.use(key, matchers)
	asked := span{want.from, min(want.to, m.now+1)}.widen(c.tile) // with what is going to be kept
	e.used = e.used.used(asked, m.now)
	if !tail.empty() {
		e.tail, e.looked = usedAgain(e.tail, m.now), m.now
	}
	usable := e.covered.usable(m).all()
	missing := usable.missing(old)
	hit := spans{old}.tiles(c.tile) - missing.tiles(c.tile)
	kept := old
	if kept.empty() {
		kept = span{tail.from, tail.from}
	}
	switch young := usable.missing(tail); {
	case tail.empty():
	case len(young) == 0:
		kept.to, tail = tail.to, span{}
	default:
		kept.to = max(kept.to, young[0].from)
		tail.from = young[0].from
	}
	h.add(e, kept)
	l := lookup{entry: e, sel: e.sel, covered: e.covered, moment: m, kept: kept, more: !tail.empty() || !ancient.empty()}

	// Join what is under way.
	shared := 0
	for _, f := range e.flights {
		rest := missing.without(f.old)
		helps := !slices.Equal(rest, missing)
		// A flight may be of another moment; its youngest stretch is only shared with
		// queries for the very same end, or for one before it began.
		if !tail.empty() && (f.end == want.to || f.moment.now >= want.to) && f.whole.to >= tail.to && f.whole.from <= tail.from {
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
		l.flights = append(l.flights, c.start(ctx, e, &flight{whole: s, moment: m, files: true}, matchers))
		missing = missing.without(s)
	}
	restored := missed - missing.tiles(c.tile)
	subsumed := int64(0)
	if from, has := c.wider(e, missing, m); from != nil {
		for _, s := range has.all() {
			w := &wide{from, from.sel, has.within(s, m.oldest)}
			l.flights = append(l.flights, c.start(ctx, e, &flight{whole: s, moment: m, wide: w}, matchers))
			missing = missing.without(s)
			subsumed += spans{s}.tiles(c.tile)
		}
	}

	// Start what is not; what is not kept together with the tiles beside it.
	if c.recheck > 0 && !tail.empty() {
		tail.to = max(tail.to, m.now+1) // what is young then answers queries that end later, too
	}
	missing = missing.with(ancient).with(tail)
	for _, s := range missing {
		f := c.start(ctx, e, &flight{whole: s, end: want.to, moment: m, read: h.end()}, matchers)
		l.flights = append(l.flights, f)
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
