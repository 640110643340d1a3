package cache

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// LabelUpstream is what an Upstream may also be: one that can list labels.
// Times are in ms, both included. Without it the cache's queriers answer with
// ErrNoLabels.
type LabelUpstream interface {
	LabelValues(ctx context.Context, mint, maxt int64, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error)
	LabelNames(ctx context.Context, mint, maxt int64, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error)
}

// ErrNoLabels is returned when label names or values are asked of an upstream
// that cannot list them.
var ErrNoLabels = errors.New("listing label names and values is not supported over remote read; ask the upstream's HTTP API")

// reader reads for a request.
type reader struct {
	c          *Cache
	request    selection.Request // with statistics
	mint, maxt int64

	mu     sync.Mutex
	looked []*lookup
}

// Open implements selection.Source.
func (c *Cache) Open(r selection.Request, mint, maxt int64) selection.Reader {
	if r.Stats == nil {
		r.Stats = &selection.Stats{}
	}
	return &reader{c: c, request: r, mint: mint, maxt: maxt}
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	mint, maxt := selection.Bounds(hints, r.mint, r.maxt)
	return r.BeginChunks([]selection.Ask{{Ctx: ctx, MinT: mint, MaxT: maxt, Matchers: matchers}})[0](ctx)
}

// BeginChunks implements selection.Beginner. Selectors that are asked for at one moment lack the same
// times.
func (r *reader) BeginChunks(asks []selection.Ask) []selection.Get {
	gets := make([]selection.Get, len(asks))
	m := r.c.moment()
	var starts []*flight
	defer func() { r.c.launch(starts) }()
	for i, a := range asks {
		if a.MinT > a.MaxT || a.Ctx.Err() != nil {
			gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
				return selection.Empty(), nil, ctx.Err()
			}
			continue
		}
		a.Request, a.Own = r.request, cmp.Or(a.Own, &selection.Stats{})
		q := question{between(a.MinT, a.MaxT), a.Matchers, matching.Key(a.Matchers), m, a.Ctx, a.Fetch}
		l, own := r.c.look(&q)
		starts = append(starts, own...)
		r.mu.Lock()
		r.looked = append(r.looked, l)
		r.mu.Unlock()
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			sel, ws, err := r.c.answer(ctx, l)
			if err == nil {
				r.request.Stats.Samples.Add(sel.SamplesAbout(a.MinT, a.MaxT))
			}
			return sel, ws, err
		}
	}
	return gets
}

// LabelValues implements storage.LabelQuerier.
func (r *reader) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if up, ok := r.c.up.(LabelUpstream); ok {
		return up.LabelValues(ctx, r.mint, r.maxt, name, hints, matchers...)
	}
	return nil, nil, ErrNoLabels
}

// LabelNames implements storage.LabelQuerier.
func (r *reader) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if up, ok := r.c.up.(LabelUpstream); ok {
		return up.LabelNames(ctx, r.mint, r.maxt, hints, matchers...)
	}
	return nil, nil, ErrNoLabels
}

// Close implements storage.LabelQuerier. What was selected may be evicted after it.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.looked {
		if !l.got {
			r.c.leave(context.Background(), l.flights) // begun and given up
		}
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, l := range r.looked {
		l.entry.held = slices.DeleteFunc(l.entry.held, func(held *tile.Span) bool { return held == &l.kept })
	}
	r.looked = nil
	return nil
}

// lookup is what a question found: what was kept, and the flights that bring what was not.
type lookup struct {
	asked   *question
	entry   *entry
	sel     *selection.Selection // nil when nothing was kept
	covered tile.Coverage        // what sel covers
	kept    tile.Span            // what was asked for that is kept or is to be kept: it is not evicted until the reader is closed
	flights []*flight
	got     bool // whether its flights are waited for; see reader.Close
}

// look finds the entry of a selector and joins the flights for what it lacks of the times asked for. It
// returns also those of them that it has made, which are to be launched. What is found is held until the
// reader is closed.
func (c *Cache) look(q *question) (l *lookup, starts []*flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.use(q)
	l = &lookup{asked: q, entry: e, sel: e.sel, covered: e.covered}
	s := c.state(e, q, maxWider)
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
	// Tiles that are cached count here, and tiles that queries share. What a flight brings counts when
	// it has landed.
	stats, shared := q.fetch.Stats, int64(len(l.flights))
	c.metrics.shared.Add(float64(shared))
	stats.SharedFetches.Add(shared)
	for _, p := range parts {
		switch tiles := p.And(q.at.Settled).Tiles(c.tile); {
		case p.from == fromKept:
			c.metrics.hits.Add(float64(tiles))
			c.metrics.hitBytes.Add(e.bytesOf(p.Span))
			stats.TilesHit.Add(tiles)
			q.fetch.Own.TilesHit.Add(tiles)
		case p.flight != nil:
			c.metrics.misses.Add(float64(tiles))
			stats.TilesFetched.Add(tiles)
			q.fetch.Own.TilesFetched.Add(tiles)
		default:
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

// state is what there is of e. Beyond itself is looked for what neither it nor a flight has, in at most
// that many entries. The cache's mutex must be held.
func (c *Cache) state(e *entry, q *question, most int) state {
	s := state{usable: e.covered.Usable(q.at), flights: slices.Clone(e.flights)}
	missing := s.usable.Missing(q.settled())
	for _, f := range s.flights {
		missing = missing.Without(f.settled)
	}
	if len(missing) > 0 && c.disk != nil {
		s.disk = c.onDisk(e, q.at)
		missing = missing.Less(s.disk)
	}
	if len(missing) > 0 && c.kept > 0 {
		s.wider = c.widest(e, q.at, missing, most)
	}
	return s
}

// answer returns a selection that covers at least what l was looked up for. It may hold chunks and
// series outside of it. It is not evicted until the reader is closed.
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
	sel, err := l.assemble(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.discard(l.entry)
		}
		return nil, ws, err
	}
	if sel != l.sel && !slices.ContainsFunc(l.flights, func(f *flight) bool { return f.sel == sel }) {
		sel.OnDiscard = func() { c.discard(l.entry) }
	}
	return l.revised().From(l.asked.key, sel), ws, nil
}

// assemble joins what was kept of what is wanted with what the flights brought.
func (l *lookup) assemble(ctx context.Context) (*selection.Selection, error) {
	inputs := make([]tile.Input, 0, len(l.flights)+1)
	if l.sel != nil {
		base := l.sel
		if first, last := l.covered[0].From, l.covered[len(l.covered)-1].To; last-first > 2*(l.asked.To-l.asked.From) {
			base = base.Slice(l.asked.From, l.asked.To-1) // there is less to join
		}
		// The rest has been fetched again, and so may some of that have been which is
		// usable, beside what is not.
		base, err := tile.Restrict(ctx, base, l.covered, l.left())
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, tile.Input{From: l.covered[0].From, Sel: base})
	}
	for _, f := range l.flights {
		inputs = append(inputs, tile.Input{From: f.From, Sel: f.sel})
	}
	return tile.Join(ctx, inputs)
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

// A selector is answered from what is kept of a wider one where that is certain
// to be what the upstream would answer: where every series that the narrow one
// matches is matched by the wide one, too. Then its series are those of the wide
// one whose labels it matches.

// maxSubsumed is the most series of a wide selection that are looked through for
// a narrow one: beyond that fetching may be faster.
const maxSubsumed = 500_000

// maxWider is the most entries that are looked at for a wider selector. Each takes about 0.5 µs
// with the cache's mutex held. One that is not found costs a fetch, never a wrong answer.
const maxWider = 512

// Answerer is what an Upstream may also be: one that matches selectors with the
// labels that series have, but for external labels that it adds to all of them as
// a Prometheus does. Only its selectors are answered from wider ones. What joins
// the series of several sources, each with external labels of its own, is none.
type Answerer interface {
	// Answers reports whether the selector is answered at all; for others there
	// is nothing, whatever the upstream has.
	Answers(matchers []*labels.Matcher) bool
}

// widest is, of what is kept of selectors that match all that e does, the one that has most of what is
// missing of e, and that. A matcher of e that implies a metric name is of that name. The cache's mutex
// must be held.
func (c *Cache) widest(e *entry, m tile.Moment, missing tile.Coverage, entries int) (best superset) {
	up, ok := c.up.(Answerer)
	if !ok || !up.Answers(e.matchers) {
		return best
	}
	looked, most := 0, int64(0)
	for _, name := range slices.Compact([]string{"", e.name}) {
		for w := range c.named[name] {
			if looked++; looked > entries {
				return best
			}
			if w == e || w.sel == nil || w.sel.NumSeries() > maxSubsumed || !matching.ImpliesAll(e.matchers, w.matchers) || !up.Answers(w.matchers) {
				continue
			}
			usable, has := w.covered.Usable(m).Old(), tile.Coverage(nil)
			for _, s := range missing {
				has = append(has, usable.Within(s.Span)...)
			}
			if n := has.Tiles(m.Tile); n > most {
				best, most = superset{w, w.sel, has}, n
			}
		}
	}
	return best
}
