package cache

import (
	"context"
	"slices"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// lookup is what one query found: what was kept, and the flights that bring
// what was not.
type lookup struct {
	request selection.Request
	want    tile.Span
	entry   *entry               // nil when nothing is wanted
	sel     *selection.Selection // nil when nothing was kept
	covered tile.Coverage        // what sel covers
	moment  tile.Moment
	kept    tile.Span // what was asked for that is kept or is to be kept: it is not evicted until release
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

// look finds the entry of a selector and joins the flights for what it lacks of the times asked for, or
// makes such as are to be launched. Selectors that are looked up at one moment lack the same times. What
// is found is held until it is released.
func (r *reader) look(m tile.Moment, a selection.Ask) *lookup {
	c := r.c
	mint, maxt := selection.Bounds(a.Hints, r.mint, r.maxt)
	if mint > maxt || a.Ctx.Err() != nil {
		return &lookup{}
	}
	w := c.wants(m, mint, maxt)
	key := matching.Key(a.Matchers)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.use(key, a.Matchers)
	e.wanted(w)
	l := &lookup{request: r.request, want: w.Span, entry: e, sel: e.sel, covered: e.covered, moment: m}
	parts := c.join(l, w)
	if !l.kept.Empty() {
		e.held = append(e.held, l)
	}
	joined := len(l.flights)
	a.Request = r.request
	for _, p := range parts {
		if p.flight == nil && p.from != fromKept {
			f := &flight{part: p, end: w.To, moment: m, fetch: a.Fetch}
			l.starts = append(l.starts, c.start(a.Ctx, e, f))
		}
	}
	l.flights = append(l.flights, l.starts...)
	if len(l.flights) == 0 && l.sel == nil {
		l.sel = selection.Empty()
	}
	c.count(r.request.Stats, m, parts, int64(joined))
	return l
}

// wanted notes that a query wants something of e. The cache's mutex must be held.
func (e *entry) wanted(w want) {
	all := tile.Span{From: w.From, To: min(w.To, w.at.Now+1)}.Widen(w.tile) // with what is going to be kept
	e.used = e.used.Used(all, w.at.Now)
	if w.To > w.at.Settled.To {
		e.tail, e.looked = tile.UsedAgain(e.tail, w.at.Now), w.at.Now
	}
}

// join finds out what l needs, and has it join the flights that bring something of that. The cache's
// mutex must be held.
func (c *Cache) join(l *lookup, w want) (parts []part) {
	s := c.state(l.entry, w.at)
	// A flight that its last query leaves meanwhile is as if it were not there.
	gone := func(p part) bool {
		if p.flight == nil || slices.Contains(l.flights, p.flight) {
			return false
		}
		if !p.flight.join() {
			return true
		}
		l.flights = append(l.flights, p.flight)
		return false
	}
	for {
		parts, l.kept = need(w, s)
		i := slices.IndexFunc(parts, gone)
		if i < 0 {
			return parts
		}
		s.flights = slices.DeleteFunc(s.flights, func(f *flight) bool { return f == parts[i].flight })
	}
}

// state is what there is of e. The cache's mutex must be held, while it is used, too.
func (c *Cache) state(e *entry, m tile.Moment) state {
	return state{
		usable:  e.covered.Usable(m).All(),
		flights: slices.Clone(e.flights),
		onDisk:  func(missing tile.Spans) tile.Spans { return c.onDisk(e, missing) },
		inWider: func(missing tile.Spans) (*entry, tile.Coverage) { return c.superset(e, missing, m) },
	}
}

// wants is what a query of the times mint to maxt (ms, both included) wants at m.
func (c *Cache) wants(m tile.Moment, mint, maxt int64) want {
	return want{tile.Span{From: max(mint, tile.MinTime), To: min(maxt, tile.MaxTime) + 1}, m, c.tile, c.recheck > 0}
}

// count counts tiles that are there, and those that queries share; what flights bring counts once they
// have it.
func (c *Cache) count(s *selection.Stats, m tile.Moment, parts []part, shared int64) {
	var hits, misses int64
	for _, p := range parts {
		settled, _ := p.Split(m.Settled.To)
		_, settled = settled.Split(m.Settled.From)
		switch tiles := (tile.Spans{settled}).Tiles(c.tile); {
		case p.from == fromKept:
			hits += tiles
		case p.flight != nil:
			misses += tiles
		}
	}
	c.metrics.hits.add(hits)
	c.metrics.misses.add(misses)
	c.metrics.shared.add(shared)
	s.TilesHit.Add(hits)
	s.TilesFetched.Add(misses)
	s.SharedFetches.Add(shared)
}
