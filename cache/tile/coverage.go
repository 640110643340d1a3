package tile

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/promwarp/promwarp/selection"
)

// Stretch is a span of tiles, the newest of which may still grow, that were fetched
// at one time (ms).
type Stretch struct {
	Span
	At       int64
	revision uint64 // of the samples; 0 where that does not matter. See selection.Settled
	Young    bool   // whether it was fetched before it was old enough to be settled
}

// Coverage is what an entry covers: stretches in time order, none overlapping
// another, and those that touch of different times, revisions or ages. The methods leave it
// unchanged, so it may be shared.
type Coverage []Stretch

// With returns cs with s fetched at the given time (ms).
func (cs Coverage) With(s Span, at int64) Coverage {
	return cs.Having(Stretch{Span: s, At: at})
}

// on is s with another span.
func (s Stretch) on(other Span) Stretch {
	s.Span = other
	return s
}

// Having returns cs with s.
func (cs Coverage) Having(s Stretch) Coverage {
	if s.Empty() {
		return cs
	}
	var out Coverage
	for _, c := range cs {
		if c.From < s.From {
			out = out.append(c.on(Span{c.From, min(c.To, s.From)}))
		}
	}
	out = out.append(s)
	for _, c := range cs {
		out = out.append(c.on(Span{max(c.From, s.To), c.To}))
	}
	return out
}

// append appends s to cs, which ends before it. It may change cs.
func (cs Coverage) append(s Stretch) Coverage {
	if s.Empty() {
		return cs
	}
	if k := len(cs) - 1; k >= 0 && cs[k].To == s.From && cs[k].on(s.Span) == s {
		cs[k].To = s.To
		return cs
	}
	return append(cs, s)
}

// Without returns what is in cs but in none of the spans.
func (cs Coverage) Without(gone ...Span) Coverage {
	for _, s := range gone {
		var out Coverage
		for _, c := range cs {
			for _, rest := range c.Span.Without(s) {
				out = append(out, c.on(rest))
			}
		}
		cs = out
	}
	return cs
}

// All returns all that is covered.
func (cs Coverage) All() Spans {
	var out Coverage
	for _, c := range cs {
		out = out.append(Stretch{Span: c.Span})
	}
	all := make(Spans, len(out))
	for i, c := range out {
		all[i] = c.Span
	}
	return all
}

// Within returns what is in cs and in s.
func (cs Coverage) Within(s Span) (out Coverage) {
	for _, c := range cs {
		if both := c.And(s); !both.Empty() {
			out = append(out, c.on(both))
		}
	}
	return out
}

// Since returns what was fetched at the given time (ms) or later.
func (cs Coverage) Since(at int64) Coverage {
	return cs.only(func(c Stretch) bool { return c.At >= at })
}

// Old returns what of cs was old enough to be settled when it was fetched.
func (cs Coverage) Old() Coverage { return cs.only(func(c Stretch) bool { return !c.Young }) }

// Young returns the rest of cs.
func (cs Coverage) Young() Coverage { return cs.only(func(c Stretch) bool { return c.Young }) }

func (cs Coverage) only(is func(Stretch) bool) (out Coverage) {
	for _, c := range cs {
		if is(c) {
			out = append(out, c)
		}
	}
	return out
}

// Usable returns what of cs may answer at m.
func (cs Coverage) Usable(m Moment) Coverage {
	out := cs.Old().Within(m.Settled).Since(m.Oldest)
	for _, s := range cs.Young().Since(m.Recent) {
		out = out.Having(s)
	}
	return out
}

// Until is the end of the whole tiles of cs that are old.
func (cs Coverage) Until(tile int64) int64 {
	old := cs.Old()
	if len(old) == 0 {
		return math.MinInt64
	}
	return Floor(old[len(old)-1].To, tile)
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
	return sel.From(p)
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
func Restrict(ctx context.Context, sel *selection.Selection, have, keep Spans) (*selection.Selection, error) {
	if slices.Equal(have, keep) {
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
