package window

import (
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "quantile_over_time", Param: plan.ParamBefore},
		Plain:      func(w *Window) (float64, bool) { return exact.Quantile(w.Param, w.copied()), true },
		Fast:       (*Evaluator).quantiles,
		Ordinary:   func(q, _ float64) bool { return exact.IsQuantile(q) },
		Outside:    "a quantile outside 0 to 1",
		GPU:        abi.Policy{Kernel: abi.ByOrder, Name: "Quantile"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "mad_over_time"},
		Plain:      func(w *Window) (float64, bool) { return exact.MedianDeviation(w.Values, &w.scratch), true },
		Fast: func(s *Evaluator) (int, bool) {
			if !s.ranks(deviationCost) {
				return 0, false
			}
			slidingDeviations(s.in.Values, &s.bounds, &s.order, &s.window.scratch, s.out)
			return s.fr.Counts.Points, true
		},
		GPU: abi.Policy{Kernel: abi.ByOrder, Name: "Distance", Second: true},
	})
)

// ranks decides whether to slide over the order of the values, and prepares for it.
func (s *Evaluator) ranks(cost int) bool {
	return s.bounds.Overlap(cost) && s.order.Set(s.in.Values, int(s.bounds.First()), int(s.bounds.End()))
}

// quantiles slides where that is worth it, and notes at which steps there is a quantile that
// may be none.
func (s *Evaluator) quantiles() (points int, ok bool) {
	switch {
	case s.call.Varying[0] != nil || !exact.IsQuantile(s.call.Param):
		points = s.plain()
		s.note()
		return points, true
	case s.quantilesAbreast():
		return s.fr.Counts.Points, true
	case s.ranks(quantileCost):
		slidingQuantiles(&s.bounds, &s.order, s.call.Param, s.out)
		return s.fr.Counts.Points, true
	}
	return 0, false
}

// quantilesAbreast fills out with the quantiles of windows side by side, where that is worth it.
func (s *Evaluator) quantilesAbreast() bool {
	strides, rest := s.fr.Strides()
	b, vs, q := &s.bounds, s.in.Values, s.call.Param
	tooMany := func(st frame.Stride) bool { return !exact.CanQuantiles(q, st.Samples) }
	if strides == nil || slices.ContainsFunc(strides, tooMany) || !exact.Ordinary(vs[b.First():b.End()]) {
		return false
	}
	s.strided(strides, func(_ *frame.Stride, out []float64) { s.rows.Quantiles(q, out) })
	for _, k := range rest {
		s.window.Values = vs[b.Lo[k]:b.Hi[k]]
		s.out.Set(int(k), exact.Quantile(q, s.window.copied()))
	}
	return true
}

// note notes the steps at which the series has a quantile.
func (s *Evaluator) note() {
	if s.noted == nil {
		s.noted = make([]uint64, len(s.out.Present))
	}
	for w, p := range s.out.Present {
		s.noted[w] |= p
	}
}

// slidingQuantiles fills out with the quantile of each window.
func slidingQuantiles(b *frame.Bounds, o *exact.Ranks, q float64, out dense.Row) {
	next := b.First()
	first := next
	b.Each(out, func(_ int, lo, hi int32) float64 {
		next, first = o.Move(lo, hi, next, first)
		return o.Quantile(q, int(hi-lo))
	})
}

// slidingDeviations fills out with the median absolute deviation of each window.
func slidingDeviations(vs []float64, b *frame.Bounds, o *exact.Ranks, scratch *[]float64, out dense.Row) {
	next, odd := b.First(), oddities{vs: vs, at: o.Odd}
	first := next
	b.Each(out, func(_ int, lo, hi int32) float64 {
		next, first = o.Move(lo, hi, next, first)
		if any, _ := odd.in(lo, hi); any || o.Tiny {
			return exact.MedianDeviation(vs[lo:hi], scratch)
		}
		return o.MedianDeviation(int(hi - lo))
	})
}

// InvalidQuantiles calls f with the quantiles that note has noted and that are
// none, in order; with a constant perhaps several times.
func (s *Evaluator) InvalidQuantiles(fn *Call, f func(q float64)) {
	q := fn.Param
	for w, p := range s.noted {
		for ; p != 0; p &= p - 1 {
			if fn.Varying[0] != nil {
				q = fn.Varying[0][w<<6+bits.TrailingZeros64(p)]
			}
			if !exact.IsQuantile(q) {
				f(q)
			}
			if fn.Varying[0] == nil {
				break // the same at all steps
			}
		}
	}
}
