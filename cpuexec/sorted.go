package cpuexec

import (
	"math"
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
			cur.set(k, quantileOf(q, *scratch))
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

// quantileOf sorts vs, NaN first, and interpolates between its neighbours of
// rank q·(n-1). q is within [0, 1].
func quantileOf(q float64, vs []float64) float64 {
	slices.Sort(vs)
	lower, upper, weight := position(q, len(vs))
	return between(vs[lower], vs[upper], weight)
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
