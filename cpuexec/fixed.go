package cpuexec

import (
	"math"
	"math/bits"
	"slices"
)

// fixed are the values of a series as integers, multiples of one power of two:
// the largest value takes 62 bits. Where all values fit (integers do, and floats
// whose magnitudes differ by less than 2^9), they are exact, else cut off below
// the unit, which is less than 2^-60 of the largest.
type fixed struct {
	x     []int64 // v / unit; 0 for values that are not finite
	unit  float64 // a power of two
	exact bool    // x · unit are the very values
	max   float64 // the largest magnitude, in units
	// low and high enclose all values, in units.
	low, high float64
	limit     float64 // up to which all sums of x are exact in a float64, when x are
	odd       []int32 // samples that are NaN or infinite
}

// The exponents of the largest value between which squares of differences and
// sums of them stay normal numbers.
const minExponent, maxExponent = -400, 450

// set fills f from the samples from to to of vs. It reports false where the values are too large or too
// small to be added up in fixed point.
func (f *fixed) set(vs []float64, from, to int) bool {
	f.x = slices.Grow(f.x[:0], len(vs))[:len(vs)]
	f.odd = f.odd[:0]
	largest := 0.0
	for k := from; k < to; k++ {
		a := math.Abs(vs[k])
		if !(a <= math.MaxFloat64) {
			f.odd = append(f.odd, int32(k))
			continue
		}
		if a > largest {
			largest = a
		}
	}
	exponent := 62
	if largest > 0 {
		if _, exponent = math.Frexp(largest); exponent < minExponent || exponent > maxExponent {
			return false
		}
	}
	f.unit = powerOfTwo(exponent - 62)
	scale := powerOfTwo(62 - exponent)
	f.max = largest * scale
	exact, all, low, high := true, int64(0), int64(math.MaxInt64), int64(math.MinInt64)
	for k := from; k < to; k++ {
		v := vs[k]
		x := int64(v * scale)
		f.x[k] = x
		all |= x
		low, high = min(low, x), max(high, x)
		exact = exact && float64(x)*f.unit == v
	}
	f.low, f.high = float64(low)-1, float64(high)+1
	if len(f.odd) > 0 {
		f.low, f.high = -f.max, f.max
		exact, all = f.setOdd(vs, from, to)
	}
	f.exact = exact
	f.limit = powerOfTwo(53 + bits.TrailingZeros64(uint64(all)))
	return true
}

// setOdd takes the values that are not finite out of what set has made of vs.
func (f *fixed) setOdd(vs []float64, from, to int) (exact bool, all int64) {
	for _, k := range f.odd {
		f.x[k] = 0
	}
	exact = true
	for k := from; k < to; k++ {
		v := vs[k]
		all |= f.x[k]
		exact = exact && (float64(f.x[k])*f.unit == v || !(math.Abs(v) <= math.MaxFloat64))
	}
	return exact, all
}

// small reports whether every sum of up to n values is a float64 without
// rounding, in whatever order it is added up.
func (f *fixed) small(n int) bool {
	return f.exact && float64(n)*f.max <= f.limit
}
