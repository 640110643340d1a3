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

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/promwarp/promwarp/selection"
)

// Times are clamped to these (ms), so that sums of them do not overflow.
const (
	MinTime = -1 << 61
	MaxTime = 1<<61 - 1
)

// Span is a stretch of time in ms, from included, to not.
type Span struct{ From, To int64 }

// Empty reports whether there is nothing in s.
func (s Span) Empty() bool { return s.From >= s.To }

// And returns what is in both s and o.
func (s Span) And(o Span) Span { return Span{max(s.From, o.From), min(s.To, o.To)} }

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

// Tiles is the number of tiles in s, of which one may be a part. A span without an end in sight
// counts as at most a million, so that one such query does not bury all others in a counter.
func (s Span) Tiles(tile int64) int64 { return min(max(0, (s.To-s.From+tile-1)/tile), 1e6) }

// Moment is what answers at one moment of what is kept.
type Moment struct {
	Now     int64 // ms
	Tile    int64 // length of a tile, ms
	Settled Span  // the stretch of time whose tiles are kept
	Oldest  int64 // the earliest time of fetching (ms) of what still answers
	Recent  int64 // the same of what was not old enough to be settled then; math.MaxInt64 where nothing is kept of that
}

// Stretch is a span of tiles, the newest of which may still grow, that were fetched
// at one time (ms).
type Stretch struct {
	Span
	At       int64
	revision uint64 // of the samples; 0 where that does not matter. See selection.Settled
	Young    bool   // whether it was fetched before it was old enough to be settled
}

// Coverage is what an entry covers: stretches in time order, none overlapping
// another; stretches that touch have different times, revisions or ages. The methods leave it
// unchanged, so it may be shared.
type Coverage []Stretch

// With returns cs with s fetched at the given time (ms).
func (cs Coverage) With(s Span, at int64) Coverage {
	return cs.Having(Stretch{Span: s, At: at})
}

// Having returns cs with s.
func (cs Coverage) Having(s Stretch) Coverage {
	if s.Empty() {
		return cs
	}
	var out Coverage
	for _, c := range cs {
		c.To = min(c.To, s.From)
		out = out.append(c)
	}
	out = out.append(s)
	for _, c := range cs {
		c.From = max(c.From, s.To)
		out = out.append(c)
	}
	return out
}

// append appends s to cs, which ends before it. It may change cs.
func (cs Coverage) append(s Stretch) Coverage {
	if s.Empty() {
		return cs
	}
	if k := len(cs) - 1; k >= 0 && cs[k].To == s.From {
		before := cs[k]
		if before.Span = s.Span; before == s {
			cs[k].To = s.To
			return cs
		}
	}
	return append(cs, s)
}

// Without returns what is in cs but not in s.
func (cs Coverage) Without(s Span) Coverage {
	if s.Empty() {
		return cs
	}
	var out Coverage
	for _, c := range cs {
		before, behind := c, c
		before.To, behind.From = min(c.To, s.From), max(c.From, s.To)
		out = out.append(before).append(behind)
	}
	return out
}

// Less returns what is in cs but not in gone.
func (cs Coverage) Less(gone Coverage) Coverage {
	for _, s := range gone {
		cs = cs.Without(s.Span)
	}
	return cs
}

// Missing returns what is in s but not in cs.
func (cs Coverage) Missing(s Span) Coverage { return Coverage(nil).With(s, 0).Less(cs) }

// All returns all that is covered, without when and how it was fetched.
func (cs Coverage) All() (out Coverage) {
	for _, c := range cs {
		out = out.append(Stretch{Span: c.Span})
	}
	return out
}

// Tiles is the number of tiles in cs; see Span.Tiles.
func (cs Coverage) Tiles(tile int64) (n int64) {
	for _, c := range cs.All() {
		n += c.Span.Tiles(tile)
	}
	return n
}

// Pairs are the spans of cs as pairs: from, and to, which is not included.
func (cs Coverage) Pairs() (out [][2]int64) {
	for _, c := range cs.All() {
		out = append(out, [2]int64{c.From, c.To})
	}
	return out
}

// Within returns what is in cs and in s.
func (cs Coverage) Within(s Span) (out Coverage) {
	for _, c := range cs {
		if c.Span = c.And(s); !c.Empty() {
			out = append(out, c)
		}
	}
	return out
}

// Since returns what was fetched at the given time (ms) or later.
func (cs Coverage) Since(at int64) Coverage {
	return slices.DeleteFunc(slices.Clone(cs), func(c Stretch) bool { return c.At < at })
}

// Old returns what of cs was old enough to be settled when it was fetched.
func (cs Coverage) Old() Coverage {
	return slices.DeleteFunc(slices.Clone(cs), func(c Stretch) bool { return c.Young })
}

// Usable returns what of cs may answer at m.
func (cs Coverage) Usable(m Moment) (out Coverage) {
	for _, c := range cs {
		since := m.Recent
		if !c.Young {
			since, c.Span = m.Oldest, c.And(m.Settled)
		}
		if c.At >= since && !c.Empty() {
			out = append(out, c)
		}
	}
	return out
}

// Until is the end of the whole tiles of cs that are old.
func (cs Coverage) Until(tile int64) int64 {
	for _, c := range slices.Backward(cs) {
		if !c.Young {
			return Floor(c.To, tile)
		}
	}
	return math.MinInt64
}

// Revised returns cs with the given revision.
func (cs Coverage) Revised(revision uint64) Coverage {
	var out Coverage
	for _, c := range cs {
		c.revision = revision
		out = out.append(c)
	}
	return out
}

// From returns sel, which has of the stretches what is kept of the selector with the
// given key, with that as its provenance.
func (cs Coverage) From(key string, sel *selection.Selection) *selection.Selection {
	if len(cs) == 0 {
		return sel
	}
	p := &selection.Provenance{Selector: key, Settled: make([]selection.Settled, len(cs))}
	for i, c := range cs {
		p.Settled[i] = selection.Settled{From: c.From, To: c.To, Revision: c.revision}
	}
	out := *sel
	out.Provenance = p
	return &out
}

// Extent is the span from the start of sel's earliest chunk to the end of its
// latest.
func Extent(sel *selection.Selection) Span {
	s := Span{math.MaxInt64, math.MinInt64}
	for i := range sel.NumSeries() {
		cs := sel.Chunks(i)
		s.From, s.To = min(s.From, cs[0].MinT), max(s.To, cs[len(cs)-1].MaxT+1)
	}
	return s
}

// Restrict returns of sel, which covers have, what it has in keep, a part of
// that.
func Restrict(ctx context.Context, sel *selection.Selection, have, keep Coverage) (*selection.Selection, error) {
	keep = keep.All()
	if slices.Equal(have.All(), keep) {
		return sel, nil
	}
	inputs := make([]Input, 0, len(keep))
	for _, s := range keep {
		cut, err := sel.Cut(ctx, s.From, s.To-1)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, Input{s.From, cut})
	}
	return Join(ctx, inputs)
}

// Input is a selection to be joined with others; From (ms) puts them in order.
type Input struct {
	From int64
	Sel  *selection.Selection
}

// Join joins inputs in time order, which spares selection.Join the sorting.
func Join(ctx context.Context, inputs []Input) (*selection.Selection, error) {
	slices.SortStableFunc(inputs, func(a, b Input) int { return cmp.Compare(a.From, b.From) })
	sels := make([]*selection.Selection, len(inputs))
	for i, p := range inputs {
		sels[i] = p.Sel
	}
	return selection.Join(ctx, sels...)
}

// What a tile is worth is a time: that of the one use that would be worth as
// much. It is computed as by LRFU (Lee et al., IEEE Transactions on Computers
// 50(12), 2001): each use counts, half as much after each HalfLife. A tile that
// was asked for once is worth the time of that, one that a dashboard asks for
// every minute some hours more. So one number orders what was used lately and
// what is used often.

const (
	// HalfLife is after how long a use counts half as much.
	HalfLife = int64(time.Hour / time.Millisecond) // ms
	// worthStep is what worths are rounded down to, so that there are few
	// different ones. What is asked for all the time gains no more once another
	// use adds less: at 4.5 half-lives ahead.
	worthStep = HalfLife / 16
	// forgotten is for how long uses are remembered.
	forgotten = 7 * 24 * HalfLife
)

// UsedAgain is the worth of what was worth that much and is used now (ms).
func UsedAgain(worth, now int64) int64 {
	most, least := max(worth, now), min(worth, now)
	apart := float64(most) - float64(least)
	gain := math.Log2(1 + math.Exp2(-apart/float64(HalfLife)))
	return Floor(most+int64(gain*float64(HalfLife)), worthStep)
}

// Used returns the worths of stretches after s has been used now (ms). The time
// of a stretch in cs is its worth.
func (cs Coverage) Used(s Span, now int64) Coverage {
	cs = cs.Since(now - forgotten)
	out := cs.With(s, Floor(now, worthStep))
	for _, c := range cs.Within(s) {
		out = out.With(c.Span, UsedAgain(c.At, now))
	}
	return out
}

// WorthIn cuts all, which is covered, by what it is worth.
func (cs Coverage) WorthIn(all Coverage) (out Coverage) {
	for _, s := range all.All() {
		for _, c := range cs.Within(s.Span) {
			out = out.append(Stretch{Span: Span{s.From, c.From}, At: math.MinInt64}).append(c)
			s.From = c.To
		}
		out = out.append(Stretch{Span: s.Span, At: math.MinInt64})
	}
	return out
}

// WorthOf is the worth of the best of s.
func (cs Coverage) WorthOf(s Span) int64 {
	worth := int64(math.MinInt64)
	for _, c := range cs.Within(s) {
		worth = max(worth, c.At)
	}
	return worth
}

// Gives reports whether something of a worth makes room for a newcomer. Of what
// was used once the latest stays. What is used again and again stays until
// something is clearly worth more: when more of it is asked for than fits, a part
// stays instead of all being fetched in turn.
func Gives(worth, newcomer, now int64) bool {
	if newcomer <= now {
		return worth <= newcomer
	}
	return worth < newcomer-HalfLife/2
}
