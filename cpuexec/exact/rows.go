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

	firsts      []int32 // of columns, which are apart from each other
	apart       int
	columns     []int64   // their sums
	few, before []float64 // memory
	reciprocals []float64 // of 1, 2 and so on
}

// LeastRows is the number of windows that there must be: as many as are made at once, or twice that.
const LeastRows = 16

// Set fills r with the samples of a number of windows, of which the first begins with the first value
// and each other one every samples later. There must be vectors: see CanAbreast.
func (r *Rows) Set(vs []float64, every, samples, windows int) {
	r.windows, r.samples = windows, samples
	r.every = every
	length := windows + (samples-1)/every
	r.values = slices.Grow(r.values[:0], length*every)[:length*every]
	vs = vs[:(windows-1)*every+samples]
	whole := len(vs) / every // columns
	if r.apart != every {
		r.firsts, r.apart = r.firsts[:0], every
	}
	for n := len(r.firsts); n < whole; n++ {
		r.firsts = append(r.firsts, int32(n*every))
	}
	r.turn(vs, r.firsts[:whole], every, length)
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
	r.turn(vs, firsts, samples, windows)
	r.at = slices.Grow(r.at[:0], samples)[:samples]
	for j := range r.at {
		r.at[j] = 8 * int64(j*windows)
	}
}

// turn puts the samples of windows that begin with the values of those indices into rows of that length,
// one after the other, each window into a column.
func (r *Rows) turn(vs []float64, firsts []int32, samples, length int) {
	windows, n := len(firsts)&^3, samples&^3
	if windows > 0 && n > 0 {
		turnRows(&vs[0], &firsts[0], windows, n, &r.values[0], 8*length)
	}
	for j := n; j < samples; j++ {
		for i, first := range firsts[:windows] {
			r.values[j*length+i] = vs[int(first)+j]
		}
	}
	for i, first := range firsts[windows:] {
		for j, v := range vs[first:][:samples] {
			r.values[j*length+windows+i] = v
		}
	}
}

// Sums fills out with the compensated sum of each window, over n: infinite or NaN where Prometheus's may
// be none.
func (r *Rows) Sums(n float64, out []float64) {
	sumRows(&r.values[0], &r.at[0], r.samples, r.windows, n, &out[:r.windows][0])
}

// Means fills out with the mean of each window, of values of those magnitudes. It reports false where it
// cannot.
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
