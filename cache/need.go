package cache

import "github.com/promwarp/promwarp/cache/tile"

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

// want is what a query wants of a selector.
type want struct {
	tile.Span             // ms
	at        tile.Moment // when it asks
	tile      int64       // ms
	young     bool        // whether what is young is kept; then the newest samples are fetched until now
}

// state is what there is of the selector at that moment.
type state struct {
	usable  tile.Spans                          // what is kept and may answer
	flights []*flight                           // under way
	onDisk  func(missing tile.Spans) tile.Spans // what files have of it
	// inWider finds a wider selector, and what is kept of it of what is missing.
	inWider func(missing tile.Spans) (*entry, tile.Coverage)
}

// part is a stretch of what a query wants, and where it comes from.
type part struct {
	tile.Span
	from   source
	flight *flight   // which brings it already; nil for none
	wider  *superset // of which selector, if it comes from a wider one
}

// need says where what a query wants comes from: a part for each stretch, the kept ones first. It also
// returns the stretch of what is wanted that is kept or will be: the rest is fetched for this query alone.
// It depends on nothing but its arguments.
//
//	          ancient │        settled         │   tail
//	──────────────────┼────────────────────────┼──────────▶ time
//	 older than the   │ kept by tiles, widened │ young: kept for minutes, up to the newest
//	 retention: never │ to the tiles' edges    │ samples of all series; the rest is fetched
//	 kept             │                        │ for every query
func need(w want, s state) (parts []part, keeps tile.Span) {
	ancient, rest := w.Split(w.at.Settled.From)
	settled, tail := rest.Split(w.at.Settled.To)
	settled, _ = settled.Widen(w.tile).Split(w.at.Settled.To)
	if keeps = settled; keeps.Empty() {
		keeps = tile.Span{From: tail.From, To: tail.From}
	}

	// What is kept: tiles, and what is young without a gap behind them.
	missing := s.usable.Missing(settled)
	there := tile.Spans(nil).With(settled)
	for _, m := range missing {
		there = there.Without(m)
	}
	for _, t := range there {
		parts = append(parts, part{Span: t, from: fromKept})
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
			if both := (tile.Span{From: max(m.From, f.settled.From), To: min(m.To, f.settled.To)}); !both.Empty() {
				parts = append(parts, part{Span: both, from: f.from, flight: f})
			}
		}
		missing = missing.Without(f.settled)
		// A flight may be of another moment; its youngest stretch is only shared with
		// queries for the very same end, or for one before it began.
		if !tail.Empty() && (f.end == w.To || f.moment.Now >= w.To) && f.To >= tail.To && f.From <= tail.From {
			parts = append(parts, part{Span: tail, from: f.from, flight: f})
			tail = tile.Span{}
		}
		if !ancient.Empty() && f.From <= ancient.From && f.To >= ancient.To {
			parts = append(parts, part{Span: ancient, from: f.from, flight: f})
			ancient = tile.Span{}
		}
	}

	for _, d := range s.onDisk(missing) {
		parts = append(parts, part{Span: d, from: fromDisk})
		missing = missing.Without(d)
	}
	if e, has := s.inWider(missing); e != nil {
		for _, d := range has.All() {
			parts = append(parts, part{Span: d, from: fromWider, wider: &superset{e, e.sel, has.Within(d, w.at.Oldest)}})
			missing = missing.Without(d)
		}
	}
	// What is not kept is fetched together with the tiles beside it.
	if w.young && !tail.Empty() {
		tail.To = max(tail.To, w.at.Now+1) // what is young then answers queries that end later, too
	}
	for _, m := range missing.With(ancient).With(tail) {
		parts = append(parts, part{Span: m, from: fromUpstream})
	}
	return parts, keeps
}
