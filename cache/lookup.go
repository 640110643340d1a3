package cache

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// lookup is what a question found: what was kept, and the flights that bring what was not.
type lookup struct {
	asked   *question
	entry   *entry
	sel     *selection.Selection // nil when nothing was kept
	covered tile.Coverage        // what sel covers
	kept    tile.Span            // what was asked for that is kept or is to be kept: it is not evicted until release
	flights []*flight
	got     bool // whether its flights are waited for; see reader.Close
}

// look finds the entry of a selector and joins the flights for what it lacks of the times asked for. It
// returns also those of them that it has made, which are to be launched. What is found is held until it
// is released.
func (c *Cache) look(q *question) (l *lookup, starts []*flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.use(q)
	l = &lookup{asked: q, entry: e, sel: e.sel, covered: e.covered}
	s := c.state(e, q)
	var parts []part
	for gone := 0; gone >= 0; {
		parts, l.kept = need(q, s)
		// A flight that its last query leaves meanwhile is as if it were not there.
		if gone = slices.IndexFunc(parts, func(p part) bool { return p.flight != nil && !l.join(p.flight) }); gone >= 0 {
			s.flights = slices.DeleteFunc(s.flights, func(f *flight) bool { return f == parts[gone].flight })
		}
	}
	if !l.kept.Empty() {
		e.held = append(e.held, &l.kept)
	}
	c.count(q, parts, len(l.flights))
	for _, p := range parts {
		if p.flight == nil && p.from != fromKept {
			starts = append(starts, c.start(e, p, q))
		}
	}
	l.flights = append(l.flights, starts...)
	return l, starts
}

// join has l wait for f, unless the last one who did has left.
func (l *lookup) join(f *flight) bool {
	if slices.Contains(l.flights, f) {
		return true
	}
	n := f.waiters.Load()
	for n > 0 && !f.waiters.CompareAndSwap(n, n+1) {
		n = f.waiters.Load()
	}
	if n > 0 {
		l.flights = append(l.flights, f)
	}
	return n > 0
}

// state is what there is of e. Beyond itself is looked for what neither it nor a flight has. The cache's
// mutex must be held.
func (c *Cache) state(e *entry, q *question) state {
	s := state{usable: e.covered.Usable(q.at).All(), flights: slices.Clone(e.flights)}
	missing := s.usable.Missing(q.settled())
	for _, f := range s.flights {
		missing = missing.Without(f.settled())
	}
	if len(missing) > 0 {
		s.disk, s.wider = c.onDisk(e, q.at), c.supersets(e, q.at)
	}
	return s
}

// count counts tiles that are there, and those that queries share; what flights bring counts once they
// have it.
func (c *Cache) count(q *question, parts []part, shared int) {
	var hits, misses int64
	for _, p := range parts {
		switch tiles := p.And(q.at.Settled).Tiles(c.tile); {
		case p.from == fromKept:
			hits += tiles
		case p.flight != nil:
			misses += tiles
		}
	}
	c.metrics.hits.add(hits)
	c.metrics.misses.add(misses)
	c.metrics.shared.add(int64(shared))
	s := q.fetch.Stats
	s.TilesHit.Add(hits)
	s.TilesFetched.Add(misses)
	s.SharedFetches.Add(int64(shared))
}

// release ends what l holds, and gives up what was begun and never got.
func (c *Cache) release(l *lookup) {
	if !l.got {
		c.leave(context.Background(), l.flights)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.entry.held = slices.DeleteFunc(l.entry.held, func(held *tile.Span) bool { return held == &l.kept })
}

// answer returns a selection that covers at least what l was looked up for. It may hold chunks and
// series outside of it. It is not evicted until l is released.
func (c *Cache) answer(ctx context.Context, l *lookup) (*selection.Selection, annotations.Annotations, error) {
	l.got = true
	if len(l.flights) == 0 {
		return l.covered.Usable(l.asked.at).From(l.asked.key, l.sel), nil, ctx.Err()
	}
	start, arrived := time.Now(), l.asked.fetch.Progress.Fetch()
	err := c.await(ctx, l.flights)
	arrived()
	l.asked.fetch.Stats.FetchNanos.Add(int64(time.Since(start)))
	if err != nil {
		return nil, nil, err
	}
	var ws annotations.Annotations
	for _, f := range l.flights {
		ws.Merge(f.ws) // into a map of its own; those of flights are shared
	}
	if l.kept.From <= l.asked.From && l.kept.To >= l.asked.To {
		// What is kept has chunks that later queries get, too.
		c.mu.Lock()
		sel, usable := l.entry.sel, l.entry.covered.Usable(l.asked.at)
		c.mu.Unlock()
		if len(usable.Missing(l.kept)) == 0 {
			return usable.From(l.asked.key, sel), ws, nil
		}
	}
	sel, own, err := l.assemble(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.discard(l.entry)
		}
		return nil, ws, err
	}
	if own {
		sel.SetDiscard(func() { c.discard(l.entry) })
	}
	return l.revised().From(l.asked.key, sel), ws, nil
}

// assemble joins what was kept of what is wanted with what the flights brought, and reports
// whether that made a selection of its own.
func (l *lookup) assemble(ctx context.Context) (sel *selection.Selection, own bool, err error) {
	inputs := make([]tile.Input, 0, len(l.flights)+1)
	if l.sel != nil {
		base := l.sel
		if first, last := l.covered[0].From, l.covered[len(l.covered)-1].To; last-first > 2*(l.asked.To-l.asked.From) {
			base = base.Slice(l.asked.From, l.asked.To-1) // there is less to join
		}
		// The rest has been fetched again, and so may some of that have been which is
		// usable, beside what is not.
		if base, err = tile.Restrict(ctx, base, l.covered, l.left()); err != nil {
			return nil, false, err
		}
		inputs = append(inputs, tile.Input{From: l.covered[0].From, Sel: base})
	}
	for _, f := range l.flights {
		inputs = append(inputs, tile.Input{From: f.From, Sel: f.sel})
	}
	if sel, err = tile.Join(ctx, inputs); err != nil {
		return nil, false, err
	}
	return sel, !slices.ContainsFunc(inputs, func(in tile.Input) bool { return in.Sel == sel }), nil
}

// left is what was kept that is usable and that no flight was for.
func (l *lookup) left() tile.Coverage {
	left := l.covered.Usable(l.asked.at)
	for _, f := range l.flights {
		left = left.Without(f.Span)
	}
	return left
}

// revised is what a joined selection has of what was kept, or of one flight, alone. Chunks of a
// flight may reach into what another has, with samples that the upstream has got since.
func (l *lookup) revised() tile.Coverage {
	all, extents := l.left(), tile.Coverage(nil)
	for _, f := range l.flights {
		extent := tile.Extent(f.sel)
		all = all.Without(extent)
		for _, s := range f.has.Less(extents) {
			all = all.Having(s)
		}
		extents = extents.With(extent, 0)
	}
	return all
}
