package exact

import (
	"math"
	"slices"
)

// IsQuantile reports whether there is a quantile q: whether it is within 0 to 1.
func IsQuantile(q float64) bool { return q >= 0 && q <= 1 }

// Quantile interpolates between the neighbours of rank q·(n-1) of the n values in order, NaN
// first. For q below 0 it is -Inf, above 1 it is +Inf, for NaN it is NaN. It changes the order of vs.
func Quantile(q float64, vs []float64) float64 {
	switch {
	case q != q:
		return q
	case q < 0:
		return math.Inf(-1)
	case q > 1:
		return math.Inf(1)
	}
	return innerQuantile(q, vs)
}

// innerQuantile is Quantile for q within 0 to 1.
func innerQuantile(q float64, vs []float64) float64 {
	lower, upper, weight := position(q, len(vs))
	above, below := len(vs)-lower, upper+1 // how many the two are among on either side
	if !Ordinary(vs) {
		if MixedZeros(vs) {
			slices.SortFunc(vs, byValue)
		} else {
			slices.Sort(vs) // takes half as long
		}
		return between(vs[lower], vs[upper], weight)
	}
	if min(above, below) > fewLargest {
		rank(vs, lower)
		next := vs[lower]
		if upper > lower {
			next = slices.Min(vs[upper:])
		}
		return between(vs[lower], next, weight)
	}
	var few [fewLargest]float64
	if above <= below {
		l := largest(vs, 1, few[:above])
		return between(l[0], l[upper-lower], weight)
	}
	l := largest(vs, -1, few[:below])
	return between(-l[upper-lower], -l[0], weight)
}

// byValue compares as Prometheus does, to which a NaN is less than a NaN, too: where zeros of both signs
// come to lie depends on it.
func byValue(a, b float64) int {
	if a != a || a < b {
		return -1
	}
	return 1
}

// fewLargest is of how many values it is worth to find the largest rather than to sort
// all.
const fewLargest = 16

// rank moves values so that the k-th smallest, from 0, is at k, none before it is larger, and none
// behind it smaller. No value is NaN.
func rank(vs []float64, k int) {
	for len(vs) > fewLargest {
		n := len(vs)
		pivot := middle(middle(vs[0], vs[n/8], vs[n/4]), middle(vs[3*n/8], vs[n/2], vs[5*n/8]), middle(vs[3*n/4], vs[7*n/8], vs[n-1]))
		smaller := partition(vs, pivot)
		if k < smaller {
			vs = vs[:smaller]
			continue
		}
		vs, k = vs[smaller:], k-smaller
		same := partition(vs, math.Nextafter(pivot, math.Inf(1)))
		if k < same || math.IsInf(pivot, 1) {
			return
		}
		vs, k = vs[same:], k-same
	}
	slices.Sort(vs)
}

// partition moves the values below a limit to the front and returns how many they are. It has no
// branch on a value, which no processor would foresee.
func partition(vs []float64, limit float64) (n int) {
	for i, v := range vs {
		vs[i] = vs[n]
		vs[n] = v
		more := 0
		if v < limit {
			more = 1
		}
		n += more
	}
	return n
}

// middle is the median of three values.
func middle(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// Ordinary reports whether values of the same size are the same: there is neither a
// NaN nor a zero below zero.
func Ordinary(vs []float64) bool {
	for _, v := range vs {
		if v > 0 || v < 0 { // most values: one comparison says so
			continue
		}
		if v != v || math.Signbit(v) {
			return false
		}
	}
	return true
}

// MixedZeros reports whether there are zeros of both signs, whose order among themselves depends on how
// values are sorted.
func MixedZeros(vs []float64) bool {
	var zeros [2]bool
	for _, v := range vs {
		if v == 0 {
			zeros[math.Float64bits(v)>>63] = true
		}
	}
	return zeros[0] && zeros[1]
}

// largest fills best with the largest values of vs times sign, which is 1 or -1, in order. There are
// that many.
func largest(vs []float64, sign float64, best []float64) []float64 {
	for n, v := range vs {
		v *= sign
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
	rank := float64(q * float64(n-1))
	floor := math.Floor(rank)
	lower = max(0, int(floor))
	return lower, min(n-1, lower+1), rank - floor
}

func between(lower, upper, weight float64) float64 {
	return float64(lower*(1-weight)) + float64(upper*weight)
}

// MedianDeviation is the median distance of the values to their median.
func MedianDeviation(vs []float64, scratch *[]float64) float64 {
	for _, v := range vs {
		if v != v {
			return math.NaN()
		}
	}
	s := append((*scratch)[:0], vs...)
	*scratch = s
	median := innerQuantile(0.5, s)
	for k := range s {
		s[k] = math.Abs(s[k] - median)
	}
	return innerQuantile(0.5, s)
}

// SortedQuantile is Quantile for q within 0 to 1 of values that are in order, NaN first.
func SortedQuantile(q float64, vs []float64) float64 {
	lower, upper, weight := position(q, len(vs))
	return between(vs[lower], vs[upper], weight)
}
