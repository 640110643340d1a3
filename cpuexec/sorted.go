package cpuexec

import (
	"math"
	"math/bits"
	"slices"
)

// sortedQuantiles fills out with the quantile of each window, which it sorts anew.
// scratch is memory to use and to grow.
func sortedQuantiles(vs []float64, b *bounds, q float64, scratch *[]float64, out row) {
	cur := cursor{row: out}
	defer cur.flush()
	for k, lo := range b.lo {
		if b.giveUp(k) {
			break
		}
		if hi := b.hi[k]; lo < hi {
			*scratch = append((*scratch)[:0], vs[lo:hi]...)
			cur.set(k, quantileAt(q, *scratch))
		}
	}
}

// sortedDeviations fills out with the median absolute deviation of each window.
func sortedDeviations(vs []float64, b *bounds, scratch *[]float64, out row) {
	cur := cursor{row: out}
	defer cur.flush()
	for k, lo := range b.lo {
		if b.giveUp(k) {
			break
		}
		if hi := b.hi[k]; lo < hi {
			cur.set(k, deviationOf(vs[lo:hi], scratch))
		}
	}
}

// quantileOf interpolates between the neighbours of rank q·(n-1) of the values in
// order, NaN first. q is within [0, 1]. It changes vs.
func quantileOf(q float64, vs []float64) float64 {
	lower, upper, weight := position(q, len(vs))
	above, below := len(vs)-lower, upper+1 // how many the two are among on either side
	if min(above, below) > fewLargest || !ordinary(vs) {
		slices.Sort(vs)
		return between(vs[lower], vs[upper], weight)
	}
	var few [fewLargest]float64
	if above <= below {
		l := largest(vs, few[:above])
		return between(l[0], l[upper-lower], weight)
	}
	for k := range vs {
		vs[k] = -vs[k]
	}
	l := largest(vs, few[:below])
	return between(-l[upper-lower], -l[0], weight)
}

// fewLargest is of how many values it is worth to find the largest rather than to sort
// all.
const fewLargest = 16

// ordinary reports whether values of the same size are the same: there is neither a
// NaN nor a zero below zero.
func ordinary(vs []float64) bool {
	for _, v := range vs {
		if v != v || v == 0 && math.Signbit(v) {
			return false
		}
	}
	return true
}

// largest fills best with the largest values of vs, in order. There are that many.
func largest(vs, best []float64) []float64 {
	for n, v := range vs {
		k := n
		if n >= len(best) {
			if v <= best[0] {
				continue
			}
			for k = 0; k+1 < len(best) && best[k+1] < v; k++ {
				best[k] = best[k+1]
			}
			best[k] = v
			continue
		}
		for ; k > 0 && best[k-1] > v; k-- {
			best[k] = best[k-1]
		}
		best[k] = v
	}
	return best
}

// position says between which two of n sorted values a quantile lies, and how
// near to the upper one.
func position(q float64, n int) (lower, upper int, weight float64) {
	rank := q * float64(n-1)
	floor := math.Floor(rank)
	lower = max(0, int(floor))
	return lower, min(n-1, lower+1), rank - floor
}

func between(lower, upper, weight float64) float64 {
	return float64(lower*(1-weight)) + float64(upper*weight)
}

// deviationOf is the median distance of the values to their median.
func deviationOf(vs []float64, scratch *[]float64) float64 {
	for _, v := range vs {
		if v != v {
			return math.NaN()
		}
	}
	s := append((*scratch)[:0], vs...)
	*scratch = s
	median := quantileOf(0.5, s)
	for k := range s {
		s[k] = math.Abs(s[k] - median)
	}
	return quantileOf(0.5, s)
}

// steppedQuantiles fills out with a quantile of each window that may be another at each
// step, or none, and notes at which steps there is one.
func (s *evaluator) steppedQuantiles(vs []float64, fn *call, out row) {
	q := fn.param
	cur := cursor{row: out}
	for k, lo := range s.bounds.lo {
		if s.bounds.giveUp(k) {
			break
		}
		if fn.vary[0] != nil {
			q = fn.vary[0][k]
		}
		if hi := s.bounds.hi[k]; lo < hi {
			s.values = append(s.values[:0], vs[lo:hi]...)
			cur.set(k, quantileAt(q, s.values))
		}
	}
	cur.flush()
	if s.noted == nil {
		s.noted = make([]uint64, len(out.present))
	}
	for w, p := range out.present {
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
			if !quantileIsValid(q) {
				f(q)
			}
			if fn.vary[0] == nil {
				break // the same at all steps
			}
		}
	}
}
