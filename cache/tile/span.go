// Package tile says what a cache holds of a selector, in stretches of time: which are covered,
// since when, which of them answer at a moment, and what they are worth. A tile is the unit in
// which a cache keeps.
//
//	time         08:00     08:30     09:00     09:30   09:35
//	tiles        |---------|---------|---------|-------
//	Coverage     [fetched at 09:20   )[at 09:41        )[young)
//	Moment       ....settled.........................)   what is younger may still change
//
// The values are immutable: each method returns another. Times are in ms since the epoch; what ends
// at a time does not include it.
//
// Start with Coverage and Coverage.Usable.
package tile

import "math"

// Times are clamped to these (ms), so that sums of them do not overflow.
const (
	MinTime = -1 << 61
	MaxTime = 1<<61 - 1
)

// Span is a stretch of time in ms, from included, to not.
type Span struct{ From, To int64 }

// Empty reports whether there is nothing in s.
func (s Span) Empty() bool { return s.From >= s.To }

// Split cuts s in two at t; either part may be empty.
func (s Span) Split(t int64) (before, after Span) {
	return Span{s.From, min(s.To, t)}, Span{max(s.From, t), s.To}
}

// And returns what is in both s and o.
func (s Span) And(o Span) Span { return Span{max(s.From, o.From), min(s.To, o.To)} }

// Without returns what is in s but not in o.
func (s Span) Without(o Span) (rest Spans) {
	if o.Empty() {
		return Spans{s}
	}
	before, _ := s.Split(o.From)
	_, after := s.Split(o.To)
	for _, part := range [...]Span{before, after} {
		if !part.Empty() {
			rest = append(rest, part)
		}
	}
	return rest
}

// Widen moves the ends of s outward to multiples of tile.
func (s Span) Widen(tile int64) Span {
	if s.Empty() {
		return Span{}
	}
	return Span{Floor(s.From, tile), Floor(s.To+tile-1, tile)}
}

// Floor is the greatest multiple of tile that is not above t.
func Floor(t, tile int64) int64 {
	m := t % tile
	if m < 0 {
		m += tile
	}
	return t - m
}

// Spans is a set of moments: spans in time order, neither empty nor touching.
// The methods leave it unchanged, so it may be shared.
type Spans []Span

// With returns ss and s together.
func (ss Spans) With(s Span) Spans {
	if s.Empty() {
		return ss
	}
	out := make(Spans, 0, len(ss)+1)
	i := 0
	for ; i < len(ss) && ss[i].To < s.From; i++ {
		out = append(out, ss[i])
	}
	for ; i < len(ss) && ss[i].From <= s.To; i++ {
		s = Span{min(s.From, ss[i].From), max(s.To, ss[i].To)}
	}
	out = append(out, s)
	return append(out, ss[i:]...)
}

// Without returns what is in ss but not in s.
func (ss Spans) Without(s Span) (out Spans) {
	for _, a := range ss {
		out = append(out, a.Without(s)...)
	}
	return out
}

// Missing returns what is in s but not in ss.
func (ss Spans) Missing(s Span) Spans {
	out := Spans(nil).With(s)
	for _, a := range ss {
		out = out.Without(a)
	}
	return out
}

// Tiles is the number of tiles in s, of which one may be a part. A span without an end in sight
// counts as at most a million, so that one such query does not bury all others in a counter.
func (s Span) Tiles(tile int64) int64 { return min(max(0, (s.To-s.From+tile-1)/tile), 1e6) }

// Tiles is the number of tiles in ss; see Span.Tiles.
func (ss Spans) Tiles(tile int64) (n int64) {
	for _, s := range ss {
		n += s.Tiles(tile)
	}
	return n
}

// Pairs are the spans as pairs: from, and to, which is not included.
func (ss Spans) Pairs() (out [][2]int64) {
	for _, s := range ss {
		out = append(out, [2]int64{s.From, s.To})
	}
	return out
}

// Moment is what answers at one moment of what is kept.
type Moment struct {
	Now     int64 // ms
	Tile    int64 // length of a tile, ms
	Settled Span  // the stretch of time whose tiles are kept
	Oldest  int64 // the earliest time of fetching (ms) of what still answers
	Recent  int64 // the same of what was not old enough to be settled then
}

// Young reports whether something is kept that is not old enough to be settled.
func (m Moment) Young() bool { return m.Recent < math.MaxInt64 }
