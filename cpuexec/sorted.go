package cpuexec

import (
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// sortedQuantiles fills out with the quantile of each window, which it sorts anew.
// scratch is memory to use and to grow.
func sortedQuantiles(vs []float64, b *bounds, q float64, scratch *[]float64, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	for k, lo := range b.lo {
		if b.giveUp(k) {
			break
		}
		if hi := b.hi[k]; lo < hi {
			*scratch = append((*scratch)[:0], vs[lo:hi]...)
			cur.Set(k, exact.Quantile(q, *scratch))
		}
	}
}

// sortedDeviations fills out with the median absolute deviation of each window.
func sortedDeviations(vs []float64, b *bounds, scratch *[]float64, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	for k, lo := range b.lo {
		if b.giveUp(k) {
			break
		}
		if hi := b.hi[k]; lo < hi {
			cur.Set(k, exact.MedianDeviation(vs[lo:hi], scratch))
		}
	}
}

// steppedQuantiles fills out with a quantile of each window that may be another at each
// step, or none, and notes at which steps there is one.
func (s *evaluator) steppedQuantiles(vs []float64, fn *call, out dense.Row) {
	q := fn.param
	cur := dense.Cursor{Row: out}
	for k, lo := range s.bounds.lo {
		if s.bounds.giveUp(k) {
			break
		}
		if fn.vary[0] != nil {
			q = fn.vary[0][k]
		}
		if hi := s.bounds.hi[k]; lo < hi {
			s.values = append(s.values[:0], vs[lo:hi]...)
			cur.Set(k, exact.Quantile(q, s.values))
		}
	}
	cur.Flush()
	if s.noted == nil {
		s.noted = make([]uint64, len(out.Present))
	}
	for w, p := range out.Present {
		s.noted[w] |= p
	}
}

// badQuantiles calls f with the quantiles that steppedQuantiles has noted and that are
// none, in their order; with a constant perhaps several times.
func (s *evaluator) badQuantiles(fn *call, f func(q float64)) {
	q := fn.param
	for w, p := range s.noted {
		for ; p != 0; p &= p - 1 {
			if fn.vary[0] != nil {
				q = fn.vary[0][w<<6+bits.TrailingZeros64(p)]
			}
			if !exact.IsQuantile(q) {
				f(q)
			}
			if fn.vary[0] == nil {
				break // the same at all steps
			}
		}
	}
}
