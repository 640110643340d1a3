package cache

import (
	"context"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// source is where the samples of a stretch of time come from.
type source int

const (
	fromKept     source = iota // in memory, of the selector itself
	fromDisk                   // in files
	fromWider                  // in memory, of a selector that matches all that this one does
	fromUpstream               // fetched
)

// String is what stories and logs call the source.
func (s source) String() string { return [...]string{"kept", "disk", "wider", "upstream"}[s] }

// question is what a query asks about one selector. It is made where a query enters the cache, and
// goes unchanged to the flights that answer it.
type question struct {
	tile.Span // the times asked for
	matchers  []*labels.Matcher
	key       string          // of the matchers
	at        tile.Moment     // when it is asked
	ctx       context.Context // of who asks
	fetch     selection.Fetch // for what must be fetched
}

// moment is the present one.
func (c *Cache) moment() tile.Moment {
	now := c.now().UnixMilli()
	m := tile.Moment{
		Now: now, Tile: c.tile, Settled: tile.Span{From: 2 * tile.MinTime, To: tile.MinTime}, // before all that is asked for
		Oldest: math.MinInt64, Recent: math.MaxInt64,
	}
	if c.limit > 0 {
		m.Settled.To = tile.Floor(now-c.fresh, c.tile)
	}
	if c.retention > 0 {
		m.Settled.From = min(m.Settled.To, tile.Floor(now-c.retention+c.tile-1, c.tile))
	}
	if c.maxAge > 0 {
		m.Oldest = now - c.maxAge
	}
	if c.recheck > 0 {
		m.Recent = now - c.recheck
	}
	return m
}

// between is the stretch from mint to maxt (ms, both included).
func between(mint, maxt int64) tile.Span {
	return tile.Span{From: max(mint, tile.MinTime), To: min(maxt, tile.MaxTime) + 1}
}

// settled is the stretch of whole tiles that q asks for and that are kept once they are fetched.
func (q *question) settled() tile.Span {
	settled := q.And(q.at.Settled).Widen(q.at.Tile)
	settled.To = min(settled.To, q.at.Settled.To)
	return settled
}

// state is what there is of the selector at that moment.
type state struct {
	usable  tile.Coverage // what is kept and may answer
	flights []*flight     // under way
	disk    tile.Coverage // what files have
	wider   superset      // the best of what is kept of wider selectors
}

// superset is what is kept of a selector that matches all that another does.
type superset struct {
	entry *entry
	sel   *selection.Selection
	has   tile.Coverage
}

// part is a stretch of what a query wants, and where it comes from.
type part struct {
	tile.Span
	from   source
	flight *flight  // which brings it already; nil for none
	wider  superset // of which selector, if it comes from a wider one
}

// mostStretches is how many stretches of tiles are fetched apart. If there are more, one fetch brings
// all, with what is kept between them.
const mostStretches = 16

// need says where what a query wants comes from: a part for each stretch, the kept ones first. It also
// returns the stretch of what is wanted that is kept or will be: the rest is fetched for this query alone.
// It depends on nothing but its arguments.
//
//	          ancient │        settled         │   tail
//	──────────────────┼────────────────────────┼──────────▶ time
//	 older than the   │ kept by tiles, widened │ young: kept for minutes, up to the newest
//	 retention: never │ to the tiles' edges    │ samples of all series; the rest is fetched
//	 kept             │                        │ for every query
func need(q *question, s state) (parts []part, keeps tile.Span) {
	ancient := tile.Span{From: q.From, To: min(q.To, q.at.Settled.From)}
	tail := tile.Span{From: max(q.From, q.at.Settled.To), To: q.To}
	settled := q.settled()
	if keeps = settled; keeps.Empty() {
		keeps = tile.Span{From: tail.From, To: tail.From}
	}

	// What is kept: tiles, and what is young without a gap behind them.
	missing := s.usable.Missing(settled)
	for _, t := range missing.Missing(settled) {
		parts = append(parts, part{Span: t.Span, from: fromKept})
	}
	if !tail.Empty() {
		young := tail
		if gaps := s.usable.Missing(tail); len(gaps) > 0 {
			young.To = gaps[0].From
		}
		if !young.Empty() {
			parts = append(parts, part{Span: young, from: fromKept})
		}
		tail.From = young.To
		keeps.To = max(keeps.To, young.To)
	}

	// What is under way.
	for _, f := range s.flights {
		for _, m := range missing {
			if both := m.And(f.settled); !both.Empty() {
				parts = append(parts, part{Span: both, from: f.from, flight: f})
			}
		}
		missing = missing.Without(f.settled)
		// A flight may be of another moment; its youngest stretch is only shared with
		// queries for the very same end, or for one before it began.
		if !tail.Empty() && (f.asked.To == q.To || f.asked.at.Now >= q.To) && f.To >= tail.To && f.From <= tail.From {
			parts = append(parts, part{Span: tail, from: f.from, flight: f})
			tail = tile.Span{}
		}
		if !ancient.Empty() && f.From <= ancient.From && f.To >= ancient.To {
			parts = append(parts, part{Span: ancient, from: f.from, flight: f})
			ancient = tile.Span{}
		}
	}

	for _, m := range missing {
		for _, d := range s.disk {
			if both := m.And(d.Span); !both.Empty() {
				parts = append(parts, part{Span: both, from: fromDisk})
				missing = missing.Without(both)
			}
		}
	}
	for _, d := range s.wider.has.All() {
		parts = append(parts, part{Span: d.Span, from: fromWider, wider: superset{s.wider.entry, s.wider.sel, s.wider.has.Within(d.Span)}})
		missing = missing.Without(d.Span)
	}
	// One question has at most mostStretches flights.
	if n := len(missing); n > mostStretches {
		missing = tile.Coverage(nil).With(tile.Span{From: missing[0].From, To: missing[n-1].To}, 0)
	}
	// What is not kept is fetched together with the tiles beside it.
	if q.at.Recent < math.MaxInt64 && !tail.Empty() {
		tail.To = max(tail.To, q.at.Now+1) // what is young then answers queries that end later, too
	}
	for _, m := range missing.With(ancient, 0).With(tail, 0) {
		parts = append(parts, part{Span: m.Span, from: fromUpstream})
	}
	return parts, keeps
}
