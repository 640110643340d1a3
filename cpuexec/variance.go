package cpuexec

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"
)

// slidingVariances fills out with the population variance of each window, or
// with its square root. Integers enter and leave the sums S of the values and Q
// of their squares, so that
//
//	variance = (n·Q - S²) / n²
//
// has an exact numerator, however large the mean is beside the deviations.
//
// Prometheus's own answer is rounded at each sample. Going through its formula
//
//	delta = v - mean; mean += delta / k; aux += delta · (v - mean)
//
// the mean is at most u·(X+2D) off, where u = 2^-53, X is the largest magnitude
// and D the distance of the smallest value to the largest, and so the answer is
// relative to the true variance at most 6·u·(X+D)/deviation off, and half of
// that when it is a deviation. D is at most deviation·√(2n). Windows where this is too
// much are put off and computed as Prometheus does. Equal values have variance 0 in both.
func slidingVariances(vs []float64, b *bounds, root bool, f *fixed, out row) {
	cur := cursor{row: out}
	defer cur.flush()
	late := variancesLater{vs: vs, b: b, root: root, out: out}
	var sum, squares wide
	next, odd := b.first(), oddities{vs: vs, at: f.odd}
	first := next
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		for ; next < hi; next++ {
			x := f.x[next]
			sum, squares = sum.plus(x), squares.add(product(x, x))
		}
		for ; first < lo; first++ {
			x := f.x[first]
			sum, squares = sum.plus(-x), squares.sub(product(x, x))
		}
		if lo == hi {
			continue
		}
		any, nan := odd.in(lo, hi)
		if nan {
			cur.set(k, math.NaN())
			continue
		}
		v := 0.0
		if any {
			v = varianceOf(vs[lo:hi])
		} else if w, ok := f.variance(sum, squares, int(hi-lo), root); ok {
			v = w
		} else {
			late.add(k)
			continue
		}
		if root {
			v = math.Sqrt(v)
		}
		cur.set(k, v)
	}
	late.flush()
}

// variance is the variance of n values from their sum and that of their
// squares, in units. It reports false where Prometheus's own answer is too far
// from the true one for it, or, with root, the answer's root is.
func (f *fixed) variance(sum, squares wide, n int, root bool) (float64, bool) {
	count := float64(n)
	numerator := squares.times(n).sub(sum.mul(sum)).float()
	if numerator == 0 {
		return 0, f.exact
	}
	deviation := math.Sqrt(numerator) / count
	reach := min(3*f.max, math.Abs(sum.float())/count+2*deviation*math.Sqrt(2*count))
	off := rounding * (6*reach/deviation + 20)
	if !f.exact {
		off += 3 / deviation
	}
	if root {
		off /= 2
	}
	return numerator / (count * count) * f.unit * f.unit, off <= allowed
}

// rounding is the largest relative error of one operation, and allowed how far
// from Prometheus's an answer may be, relative, less what its own last
// operations may add.
const rounding, allowed = 1.0 / (1 << 53), 0.9e-12

// variances fills out with the population variance of each window, or with its
// square root, by Prometheus's operations.
func variances(vs []float64, b *bounds, root bool, out row) {
	cur := cursor{row: out}
	defer cur.flush()
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		if lo == hi {
			continue
		}
		v := varianceOf(vs[lo:hi])
		if root {
			v = math.Sqrt(v)
		}
		cur.set(k, v)
	}
}

// varianceOf is Welford's population variance, compensated.
func varianceOf(vs []float64) float64 {
	var n, mean, cMean, aux, cAux float64
	for _, v := range vs {
		n++
		delta := v - (mean + cMean)
		mean, cMean = kahansum.Inc(delta/n, mean, cMean)
		aux, cAux = kahansum.Inc(delta*(v-(mean+cMean)), aux, cAux)
	}
	return (aux + cAux) / n
}
