package digest

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// mostSummed is how many samples a sum may be of for the bound on its error to hold by far.
const mostSummed = 1 << 26

// sum is Prometheus's compensated sum s + c of n samples, from their true sum S. With u = 2^-53, and
// no value above M,
//
//	|s + c - S| <= n³·u²·M
//
// as in exact.Fixed, so where S rounds to the same float with that added and taken away, that is s + c.
func sum(w *column.Digested) (float64, bool) {
	t, ok := w.Total()
	if !ok {
		return 0, false
	}
	return sumOf(&t, float64(w.Samples()))
}

// sumOf is sum of n samples.
func sumOf(t *column.Total, n float64) (float64, bool) {
	if n > mostSummed {
		return 0, false
	}
	unit := math.Ldexp(1, t.Exponent)
	if isSmall(t, n) {
		return t.Sum.Float() * unit, true
	}
	off := integerAbove(n * n * n * exact.Rounding * exact.Rounding * (t.Most / unit))
	low, high := t.Sum.Sub(off).Float(), t.Sum.Add(off).Float()
	return low * unit, low == high
}

// mean is Prometheus's mean where the sum of any of the samples is exact: there is nothing to
// compensate then. What it is of others depends on the order of additions.
func mean(w *column.Digested) (float64, bool) {
	t, ok := w.Total()
	n := float64(w.Samples())
	if !ok || !isSmall(&t, n) {
		return 0, false
	}
	return t.Sum.Float() * math.Ldexp(1, t.Exponent) / n, true
}

// isSmall reports whether all sums of n of the values are floats without rounding.
func isSmall(t *column.Total, n float64) bool {
	return t.Most == 0 || n*t.Most <= math.Ldexp(1, 53+t.Lowest)
}

// integerAbove is an integer above x, which is below 2^115, by a little.
func integerAbove(x float64) exact.Int192 {
	_, e := math.Frexp(x)
	shift := max(0, e-53)
	return exact.Product(int64(math.Ldexp(x, -shift))+2, 1<<shift)
}
