package window

import (
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// slidingQuantiles fills out with the quantile of each window.
func slidingQuantiles(b *bounds, o *exact.Ranks, q float64, out dense.Row) {
	next := b.first()
	first := next
	b.each(out, func(_ int, lo, hi int32) float64 {
		next, first = o.Move(lo, hi, next, first)
		return o.Quantile(q, int(hi-lo))
	})
}

// slidingDeviations fills out with the median absolute deviation of each window.
func slidingDeviations(vs []float64, b *bounds, o *exact.Ranks, scratch *[]float64, out dense.Row) {
	next, odd := b.first(), oddities{vs: vs, at: o.Odd}
	first := next
	b.each(out, func(_ int, lo, hi int32) float64 {
		next, first = o.Move(lo, hi, next, first)
		if any, _ := odd.in(lo, hi); any || o.Tiny {
			return exact.MedianDeviation(vs[lo:hi], scratch)
		}
		return o.MedianDeviation(int(hi - lo))
	})
}

// sortedQuantiles fills out with the quantile of each window, which it sorts anew.
// scratch is memory to use and to grow.
func sortedQuantiles(vs []float64, b *bounds, q float64, scratch *[]float64, out dense.Row) {
	b.each(out, func(_ int, lo, hi int32) float64 {
		*scratch = append((*scratch)[:0], vs[lo:hi]...)
		return exact.Quantile(q, *scratch)
	})
}

// sortedDeviations fills out with the median absolute deviation of each window.
func sortedDeviations(vs []float64, b *bounds, scratch *[]float64, out dense.Row) {
	b.each(out, func(_ int, lo, hi int32) float64 { return exact.MedianDeviation(vs[lo:hi], scratch) })
}

// steppedQuantiles fills out with a quantile of each window that may be another at each
// step, or none, and notes at which steps there is one.
func (s *Evaluator) steppedQuantiles(vs []float64, fn *Call, out dense.Row) {
	q := fn.Param
	s.bounds.each(out, func(k int, lo, hi int32) float64 {
		if fn.Varying[0] != nil {
			q = fn.Varying[0][k]
		}
		s.values = append(s.values[:0], vs[lo:hi]...)
		return exact.Quantile(q, s.values)
	})
	if s.noted == nil {
		s.noted = make([]uint64, len(out.Present))
	}
	for w, p := range out.Present {
		s.noted[w] |= p
	}
}

// InvalidQuantiles calls f with the quantiles that steppedQuantiles has noted and that are
// none, in their order; with a constant perhaps several times.
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
