package exact

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"
)

// Lanes is the number of values that AddFinite adds at once.
const Lanes = 4

// Add adds values to sums and their rounding errors to comp. The error of an addition, by Knuth's
// formula, is the one that Neumaier's has (see twoSum). An infinite sum has no error; where only the
// error is not finite, the value is added anew as Prometheus does.
func Add(val, comp, in []float64) {
	for k := 0; k < len(in); {
		k += AddFinite(val[k:], comp[k:], in[k:])
		for end := k + Lanes; k < len(in) && (k < end || val[k]-val[k] != 0); k++ {
			t, c := val[k]+in[k], 0.0
			switch {
			case t-t == 0:
				if t, c = twoSum(val[k], in[k], comp[k]); c-c != 0 {
					t, c = kahansum.Inc(in[k], val[k], comp[k])
				}
			case t != t:
				c = t
			}
			val[k], comp[k] = t, c
		}
	}
}

// Accumulate is Add of several values, one after the other, to one sum.
func Accumulate(vs []float64, val, comp float64) (sum, c float64) {
	sum, c = val, comp
	for _, v := range vs {
		sum, c = twoSum(sum, v, c)
	}
	if c-c == 0 {
		return sum, c
	}
	sum, c = val, comp
	for _, v := range vs {
		sum, c = kahansum.Inc(v, sum, c)
	}
	return sum, c
}

// Sum is Prometheus's compensated sum.
func Sum(vs []float64) float64 {
	sum, c := Accumulate(vs, 0, 0)
	if math.IsInf(sum, 0) {
		return sum
	}
	return sum + c
}

// Mean is Prometheus's mean of at least one value: the sum over the count, or, once the sum
// would overflow, a mean kept up to date sample by sample.
func Mean(vs []float64) float64 {
	n := float64(len(vs))
	sum, c := Accumulate(vs[1:], vs[0], 0)
	if sum-sum == 0 {
		return float64(sum/n) + float64(c/n)
	}
	sum, c = vs[0], 0
	for k := 1; k < len(vs); k++ {
		next, nextC := kahansum.Inc(vs[k], sum, c)
		if math.IsInf(next, 0) {
			return runningMean(vs, k, sum/float64(k), c/float64(k))
		}
		sum, c = next, nextC
	}
	return float64(sum/n) + float64(c/n)
}

// LeastLong is the number of values from which on FastSum is worth it.
const LeastLong = 64

// FastSum is Sum by vectors, of values of those magnitudes.
func FastSum(vs []float64, of Magnitudes) float64 {
	b := basesOf(len(vs), of, Magnitudes{})
	if b.off[0] > 0 { // others may be further apart
		b = basesOf(len(vs), MagnitudesOf(vs), Magnitudes{})
	}
	n, sum, lost, l := len(vs)&^7, 0.0, 0.0, lanes{}
	if n == 0 || !hasVectors {
		return Sum(vs)
	}
	valuesOf(&vs[0], n, &b, &l)
	for i, part := range l[0] {
		sum, lost = twoSum(sum, part, lost+l[1][i])
	}
	for _, v := range vs[n:] {
		sum, lost = twoSum(sum, v, lost)
	}
	if v := sum + (lost - b.off[0]); v != 0 && v == sum+(lost+b.off[0]) {
		return v
	}
	return Sum(vs)
}

// runningMean goes on from the mean of the first k samples.
func runningMean(vs []float64, k int, mean, c float64) float64 {
	for ; k < len(vs); k++ {
		n := float64(k + 1)
		q := (n - 1) / n
		mean, c = kahansum.Inc(vs[k]/n, q*mean, q*c)
	}
	return mean + c
}

// twoSum adds v to sum and the rounding error to c. Knuth's formula yields the
// same error as Neumaier's, which is always representable, without a branch on
// which of the two is larger. It must not overflow.
func twoSum(sum, v, c float64) (float64, float64) {
	t := sum + v
	b := t - sum
	return t, c + ((sum - (t - b)) + (v - b))
}

// Variance is Welford's population variance, compensated.
func Variance(vs []float64) float64 {
	var w Welford
	for _, v := range vs {
		w.Add(v)
	}
	return w.Variance()
}

// Welford is what Variance knows of n values: their mean and the sum of the squares of what they are
// off it, and what both have lost.
type Welford struct{ N, Mean, CMean, Squares, CSquares float64 }

// Add adds a value.
func (w *Welford) Add(v float64) {
	w.N++
	delta := v - (w.Mean + w.CMean)
	w.Mean, w.CMean = kahansum.Inc(delta/w.N, w.Mean, w.CMean)
	w.Squares, w.CSquares = kahansum.Inc(float64(delta*(v-(w.Mean+w.CMean))), w.Squares, w.CSquares)
}

// Variance is that of the values.
func (w *Welford) Variance() float64 { return (w.Squares + w.CSquares) / w.N }
