package tile

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/promwarp/promwarp/selection"
)

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
