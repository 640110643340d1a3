package exact

import (
	"math"
	"slices"
)

// Rows are the samples of windows that have equally many and begin equally far from each other, in an
// order in which those of neighbouring windows lie beside each other. Of windows of five samples, each
// two behind the one before, these are two rows:
//
//	samples   a b c d e f g h i
//	windows  [a b c d e]           rows   a c e g i
//	             [c d e f g]              b d f h
//	                 [e f g h i]
//
// The first samples of all windows are a c e, the second ones b d f, the third ones c e g.
type Rows struct {
	values           []float64
	at               []int64 // of each sample of the first window, in bytes
	windows, samples int
	every            int // samples from one window to the next, 0 where they are anywhere

	columns     []int64   // sums of samples that lie in the same place of their rows
	few, before []float64 // memory
	reciprocals []float64 // of 1, 2 and so on
}

// LeastRows is the number of windows that there must be: as many as are made at once, or twice that.
const LeastRows = 16

// Set fills r with the samples of a number of windows, of which the first begins with the first value
// and each other one every samples later. There must be vectors: see CanAbreast.
func (r *Rows) Set(vs []float64, every, samples, windows int) {
	r.windows, r.samples, r.every = windows, samples, every
	length := windows + (samples-1)/every
	r.values = slices.Grow(r.values[:0], length*every)[:length*every]
	vs = vs[:(windows-1)*every+samples]
	whole, p := len(vs)/every, 0 // columns
	row := func(p int) []float64 { return r.values[p*length:][:whole] }
	for ; p+4 <= every; p += 4 {
		r0, r1, r2, r3 := row(p), row(p+1), row(p+2), row(p+3)
		for m, i := 0, p; m < len(r0) && m < len(r1) && m < len(r2) && m < len(r3); m, i = m+1, i+every {
			four := vs[i : i+4 : i+4]
			r0[m], r1[m], r2[m], r3[m] = four[0], four[1], four[2], four[3]
		}
	}
	for ; p < every; p++ {
		for m, one := 0, row(p); m < len(one); m++ {
			one[m] = vs[p+m*every]
		}
	}
	for i, v := range vs[whole*every:] {
		r.values[i*length+whole] = v
	}
	r.at = slices.Grow(r.at[:0], samples)[:samples]
	at, column := 0, 0
	for j := range r.at {
		r.at[j] = 8 * int64(at*length+column)
		if at++; at == every {
			at, column = 0, column+1
		}
	}
}

// Gather fills r with the samples of windows anywhere, which begin with the values of those indices.
func (r *Rows) Gather(vs []float64, firsts []int32, samples int) {
	windows := len(firsts)
	r.windows, r.samples, r.every = windows, samples, 0
	r.values = slices.Grow(r.values[:0], windows*samples)[:windows*samples]
	i := 0
	for ; i+4 <= windows; i += 4 {
		v0, v1 := vs[firsts[i]:][:samples], vs[firsts[i+1]:][:samples]
		v2, v3 := vs[firsts[i+2]:][:samples], vs[firsts[i+3]:][:samples]
		for j, at := 0, i; j < len(v0) && j < len(v1) && j < len(v2) && j < len(v3); j, at = j+1, at+windows {
			four := r.values[at : at+4 : at+4]
			four[0], four[1], four[2], four[3] = v0[j], v1[j], v2[j], v3[j]
		}
	}
	for ; i < windows; i++ {
		for j, v := range vs[firsts[i]:][:samples] {
			r.values[j*windows+i] = v
		}
	}
	r.at = slices.Grow(r.at[:0], samples)[:samples]
	for j := range r.at {
		r.at[j] = 8 * int64(j*windows)
	}
}

// Sums fills out with the compensated sum of each window, over n: infinite or NaN where Prometheus's may
// be none.
func (r *Rows) Sums(n float64, out []float64) {
	sumRows(&r.values[0], &r.at[0], r.samples, r.windows, n, &out[:r.windows][0])
}

// Means fills out with the means of windows, of values of those magnitudes, or reports false.
//
// All values are multiples of a unit, the last bit of the least, and no sum reaches 2^62 units. So each
// addition loses 2^9 units at most, a multiple of the unit, and what all lose together is a float: the sum
// of the values as integers, less Prometheus's sum. The former is that of whole columns.
func (r *Rows) Means(of Magnitudes, out []float64) bool {
	if !hasWide || !of.finite || of.Least < 0x1p-900 || of.Most > 0x1p900 || r.samples > MostRunning || r.every == 0 || r.samples%r.every != 0 {
		return false
	}
	_, exponent := math.Frexp(of.Least)
	scale, n, columns := powerOfTwo(53-exponent), float64(r.samples), r.samples/r.every
	if of.Most*scale*n >= 0x1p62 {
		return false
	}
	length := r.windows + columns - 1
	r.columns = slices.Grow(r.columns[:0], length)[:length]
	columnSums(&r.values[0], &r.at[0], r.every, length, scale, &r.columns[0])
	meanRows(&r.values[0], &r.at[0], r.samples, r.windows, &r.columns[0], columns, scale, n, &out[:r.windows][0])
	return true
}

// Variances fills out with the variance of each window, or with its square root, by Welford's operations:
// infinite or NaN where Prometheus's may be none.
func (r *Rows) Variances(root bool, out []float64) {
	for n := len(r.reciprocals); n < r.samples; n++ {
		r.reciprocals = append(r.reciprocals, 1/float64(n+1))
	}
	roots := 0 // a mask
	if root {
		roots = -1
	}
	varianceRows(&r.values[0], &r.at[0], r.samples, r.windows, &r.reciprocals[0], roots, &out[:r.windows][0])
}

// Increases fills out with the difference of each window's last sample and the first one, and the
// samples before those that are less, one after the other. A zero below zero may be the one above.
func (r *Rows) Increases(out []float64) {
	resetRows(&r.values[0], &r.at[0], r.samples, r.windows, &out[:r.windows][0])
}

// Extremes fills out with Extreme of each window.
func (r *Rows) Extremes(smallest bool, out []float64) {
	rows := largestRows
	if smallest {
		rows = smallestRows
	}
	rows(&r.values[0], &r.at[0], r.samples, r.windows, &out[:r.windows][0])
}

// CanQuantiles reports whether it is worth it to call Quantiles for windows of that number of samples.
func CanQuantiles(q float64, samples int) bool { return samples*ranksOf(q, samples).n <= 1<<10 }

// Quantiles fills out with the quantile of each window, q being within 0 to 1. There must be no NaN and
// no zero below zero.
func (r *Rows) Quantiles(q float64, out []float64) {
	ranks, few := ranksOf(q, r.samples), smallestFewRows
	if ranks.largest {
		few = largestFewRows
	}
	r.few = slices.Grow(r.few[:0], LeastRows*ranks.n)[:LeastRows*ranks.n]
	r.before = slices.Grow(r.before[:0], r.windows)[:r.windows]
	few(&r.values[0], &r.at[0], r.samples, r.windows, &r.few[0], ranks.n, &out[:r.windows][0], &r.before[0])
	for i, last := range out {
		pair := [2]float64{r.before[i], last}
		out[i] = between(pair[ranks.lower], pair[ranks.upper], ranks.weight)
	}
}

// ranks says which of the n largest values, or the smallest ones, a quantile lies between: 1 for the last
// of them, 0 for the one before.
type ranks struct {
	n            int
	largest      bool
	lower, upper int
	weight       float64
}

// ranksOf are the ranks of a quantile of a number of values, two at least.
func ranksOf(q float64, values int) (r ranks) {
	lower, upper, weight := position(q, values)
	if r = (ranks{n: upper + 1, weight: weight}); values-lower <= r.n {
		lower, upper = values-1-lower, values-1-upper
		r.n, r.largest = lower+1, true
	}
	r.n = max(r.n, 2)
	r.lower, r.upper = lower-r.n+2, upper-r.n+2
	return r
}
