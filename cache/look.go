package cache

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// lookup is what one query found: what was kept, and the flights that bring
// what was not.
type lookup struct {
	want    tile.Span
	entry   *entry               // nil when nothing is wanted
	sel     *selection.Selection // nil when nothing was kept
	covered tile.Coverage        // what sel covers
	moment  tile.Moment
	kept    tile.Span // what was asked for that is kept or is to be kept: it is not evicted until release
	more    bool      // whether something that is not kept was asked for, too
	flights []*flight
	starts  []*flight // those of flights that are to be launched
	got     bool      // whether its flights are waited for; see reader.Close
}

// release ends what l holds, and gives up what was begun and never got.
func (c *Cache) release(l *lookup) {
	if !l.got {
		c.leave(context.Background(), l.flights)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.entry != nil {
		l.entry.held = slices.DeleteFunc(l.entry.held, func(other *lookup) bool { return other == l })
	}
}

// look finds the entry of a selector and joins the flights for what it lacks from mint to maxt (ms,
// both included), or makes such as are to be launched. Selectors that are looked up at one moment lack
// the same times. What is found is held until it is released.
func (c *Cache) look(ctx context.Context, m tile.Moment, mint, maxt int64, matchers []*labels.Matcher) *lookup {
	if mint > maxt || ctx.Err() != nil {
		return &lookup{}
	}
	want := tile.Span{From: max(mint, tile.MinTime), To: min(maxt, tile.MaxTime) + 1}
	key := matching.Key(matchers)
	ancient, rest := want.Split(m.Settled.From)
	old, tail := rest.Split(m.Settled.To)
	old, _ = old.Widen(c.tile).Split(m.Settled.To)

	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.use(key, matchers)
	asked := tile.Span{From: want.From, To: min(want.To, m.Now+1)}.Widen(c.tile) // with what is going to be kept
	e.used = e.used.Used(asked, m.Now)
	if !tail.Empty() {
		e.tail, e.looked = tile.UsedAgain(e.tail, m.Now), m.Now
	}
	usable := e.covered.Usable(m).All()
	missing := usable.Missing(old)
	hit := tile.Spans{old}.Tiles(c.tile) - missing.Tiles(c.tile)
	kept := old
	if kept.Empty() {
		kept = tile.Span{From: tail.From, To: tail.From}
	}
	switch young := usable.Missing(tail); {
	case tail.Empty():
	case len(young) == 0:
		kept.To, tail = tail.To, tile.Span{}
	default:
		kept.To = max(kept.To, young[0].From)
		tail.From = young[0].From
	}
	l := &lookup{want: want, entry: e, sel: e.sel, covered: e.covered, moment: m, kept: kept, more: !tail.Empty() || !ancient.Empty()}
	if !kept.Empty() {
		e.held = append(e.held, l)
	}

	// Join what is under way.
	shared, lacked := 0, missing.Tiles(c.tile)
	for _, f := range e.flights {
		rest := missing.Without(f.old)
		helps, was, old := !slices.Equal(rest, missing), tail, ancient
		// A flight may be of another moment; its youngest stretch is only shared with
		// queries for the very same end, or for one before it began.
		if !tail.Empty() && (f.end == want.To || f.moment.Now >= want.To) && f.whole.To >= tail.To && f.whole.From <= tail.From {
			tail, helps = tile.Span{}, true
		}
		if !ancient.Empty() && f.whole.From <= ancient.From && f.whole.To >= ancient.To {
			ancient, helps = tile.Span{}, true
		}
		if helps && f.join() {
			missing = rest
			shared++
			l.flights = append(l.flights, f)
		} else {
			tail, ancient = was, old
		}
	}

	lacked -= missing.Tiles(c.tile)

	// Take what is on disk, and what a wider selector has.
	for _, s := range c.onDisk(e, missing) {
		l.starts = append(l.starts, c.start(ctx, e, &flight{whole: s, moment: m, files: true}))
		missing = missing.Without(s)
	}
	if from, has := c.superset(e, missing, m); from != nil {
		for _, s := range has.All() {
			w := &superset{from, from.sel, has.Within(s, m.Oldest)}
			l.starts = append(l.starts, c.start(ctx, e, &flight{whole: s, moment: m, superset: w}))
			missing = missing.Without(s)
		}
	}

	// Start what is not; what is not kept together with the tiles beside it.
	if c.recheck > 0 && !tail.Empty() {
		tail.To = max(tail.To, m.Now+1) // what is young then answers queries that end later, too
	}
	for _, s := range missing.With(ancient).With(tail) {
		l.starts = append(l.starts, c.start(ctx, e, &flight{whole: s, end: want.To, moment: m}))
	}
	l.flights = append(l.flights, l.starts...)
	if len(l.flights) == 0 && l.sel == nil {
		l.sel = selection.Empty()
	}

	// What flights bring counts once they have it.
	c.metrics.hits.add(hit)
	c.metrics.misses.add(lacked)
	c.metrics.shared.add(int64(shared))
	qs := statsFrom(ctx)
	qs.TilesHit.Add(hit)
	qs.TilesFetched.Add(lacked)
	qs.SharedFetches.Add(int64(shared))
	return l
}
