package exact

import (
	"math"
	"math/bits"
	"slices"
)

// Fixed are the values of a series as integers, multiples of one power of two:
// the largest value takes 62 bits. Where all values fit (integers do, and floats
// whose magnitudes differ by less than 2^9), they are exact, else cut off below
// the unit, which is less than 2^-60 of the largest.
type Fixed struct {
	Units []int64 // v / unit; 0 for values that are not finite
	Unit  float64 // a power of two
	Exact bool    // Units · Unit are the very values
	Max   float64 // the largest magnitude, in units
	// Low and High enclose all values, in units.
	Low, High float64
	limit     float64 // up to which all sums of x are exact in a float64, when x are
	Odd       []int32 // samples that are NaN or infinite
	narrow    narrow
}

// The exponents of the largest value between which squares of differences and
// sums of them stay normal numbers.
const minExponent, maxExponent = -400, 450

// Set fills f from the samples from to to of vs. It reports false where the values are too
// large or too small to be added up in fixed point.
func (f *Fixed) Set(vs []float64, from, to int) bool {
	f.Units = slices.Grow(f.Units[:0], len(vs))[:len(vs)]
	f.Odd = f.Odd[:0]
	largest := 0.0
	for k := from; k < to; k++ {
		a := math.Abs(vs[k])
		if !(a <= math.MaxFloat64) {
			f.Odd = append(f.Odd, int32(k))
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
	f.Unit = powerOfTwo(exponent - 62)
	scale := powerOfTwo(62 - exponent)
	f.Max = largest * scale
	exact, all, low, high := true, int64(0), int64(math.MaxInt64), int64(math.MinInt64)
	for k := from; k < to; k++ {
		v := vs[k]
		if !(math.Abs(v) <= math.MaxFloat64) {
			f.Units[k] = 0
			continue
		}
		x := int64(v * scale)
		f.Units[k] = x
		all |= x
		low, high = min(low, x), max(high, x)
		exact = exact && float64(x)*f.Unit == v
	}
	f.Low, f.High = float64(low)-1, float64(high)+1
	shift := bits.TrailingZeros64(uint64(all))
	f.narrow = narrow{base: low >> shift, unit: 1, scale: powerOfTwo(shift), most: uint64(high-low) >> shift, shift: shift}
	if len(f.Odd) > 0 {
		f.Low, f.High = -f.Max, f.Max
	}
	f.Exact = exact
	f.limit = powerOfTwo(53 + bits.TrailingZeros64(uint64(all)))
	return true
}

// Small reports whether every sum of up to n values is a float64 without
// rounding, in whatever order it is added up.
func (f *Fixed) Small(n int) bool {
	return f.Exact && float64(n)*f.Max <= f.limit
}

// Sum is Prometheus's sum of n values whose sum in units is s. It reports false
// where its bits are uncertain.
func (f *Fixed) Sum(s Int192, n int) (float64, bool) {
	if f.Small(n) {
		return s.Float() * f.Unit, true
	}
	// x is less than 2^62, and the rounding errors of c are as large as n³·u²·2^62.
	e := int64(float64(n)*float64(n)*float64(n)*powerOfTwo(62-2*53)) + 2
	if !f.Exact {
		e += int64(n)
	}
	low, high := s.Plus(-e).Float(), s.Plus(e).Float()
	return low * f.Unit, low == high
}

// Mean is a mean of n values whose sum in units is s, close to Prometheus's. It
// reports false where that cannot be said.
func (f *Fixed) Mean(s Int192, n int) (float64, bool) {
	v := s.Float()
	if !f.Small(n) {
		c := Rounding * float64(n) * float64(n) * f.Max
		if math.Abs(v) < 4*c || (!f.Exact && math.Abs(v) < float64(n)*cutoff) {
			return 0, false
		}
	}
	return v * f.Unit / float64(n), true
}

// WideEnough is from which numerator on, over n², Variance has an answer for certain.
func (f *Fixed) WideEnough(root bool) float64 {
	most := Tolerance/Rounding - 20
	if root {
		most = 2*Tolerance/Rounding - 20
	}
	least := float64(18 * f.Max)
	if !f.Exact {
		least += 3 / Rounding
	}
	return least / most * (least / most) * (1 + 1e-9)
}

// cutoff is how many units a value must be for the part cut off, of less than
// one unit, to be less than 1e-13 of it.
const cutoff = 1e13

// Variance is the variance of n values from their sum and the numerator, which is n times the sum
// of their squares less the square of their sum, in units. It reports false where Prometheus's
// own answer is too far from the true one for it, or, with root, the answer's root is.
func (f *Fixed) Variance(sum, numerator float64, n int, root bool) (float64, bool) {
	count := float64(n)
	if numerator == 0 {
		return 0, f.Exact
	}
	deviation := math.Sqrt(numerator) / count
	reach := min(3*f.Max, math.Abs(sum)/count+float64(2*deviation*math.Sqrt(2*count)))
	off := float64(Rounding * (6*reach/deviation + 20))
	if !f.Exact {
		off += 3 / deviation
	}
	if root {
		off /= 2
	}
	return numerator / (count * count) * f.Unit * f.Unit, off <= Tolerance
}

// Rounding is the largest relative error of one operation, and Tolerance how far
// from Prometheus's an answer may be, relative, less what its own last
// operations may add.
const Rounding, Tolerance = 1.0 / (1 << 53), 0.9e-12

// narrow are the values of a Fixed as offsets from an integer, where these are small: value i is
// base + unit·offset, times scale in units of the Fixed.
type narrow struct {
	base, unit int64
	scale      float64
	most       uint64 // the difference of the largest offset and the least
	shift      int    // of values that Set has set, what is cut off of units
}

// SetNarrow is Set for values, integers that base + unit·offset are, with offsets from low to
// high; Units are not set.
func (f *Fixed) SetNarrow(base, unit float64, low, high uint32) {
	least, most := base+float64(float64(low)*unit), base+float64(float64(high)*unit)
	largest := max(math.Abs(least), math.Abs(most))
	exponent := 62
	if largest > 0 {
		_, exponent = math.Frexp(largest)
	}
	f.Unit, f.Exact, f.Odd = powerOfTwo(exponent-62), true, f.Odd[:0]
	scale := powerOfTwo(62 - exponent)
	f.Max, f.Low, f.High = largest*scale, float64(least*scale)-1, float64(most*scale)+1
	f.narrow = narrow{base: int64(base), unit: int64(unit), scale: scale, most: uint64(high - low)}
}

// Narrow reports whether n times sums of n squares of differences of offsets, and sums of n
// values, fit into 63 bits; with a reach, n times sums of n products of such differences with as
// many ms at most.
func (f *Fixed) Narrow(n int, reach int64) bool {
	offset, count := bits.Len64(f.narrow.most), bits.Len(uint(n))
	other := offset
	if reach > 0 {
		other = bits.Len64(uint64(reach))
	}
	return len(f.Odd) == 0 && offset <= 32 && offset+other+2*count <= 63 && math.Ilogb(f.Max/f.narrow.scale+1)+count < 62
}

// Offsets fills out with the offsets of values from to to, at their places, where values that Set
// has set are narrow.
func (f *Fixed) Offsets(out []uint32, from, to int) []uint32 {
	out = slices.Grow(out[:0], to)[:to]
	base, shift := f.narrow.base, f.narrow.shift
	for i := from; i < to; i++ {
		out[i] = uint32(f.Units[i]>>shift - base)
	}
	return out
}

// Whole reports whether all values are integers, and so small that all sums of n of them times
// as many seconds are, too, without rounding.
func (f *Fixed) Whole(n int, seconds float64) bool {
	return f.Exact && len(f.Odd) == 0 && f.NarrowScale()*f.Unit >= 1 && f.Max*f.Unit*float64(n)*seconds <= MaxInteger
}

// WholeOffsets returns what offsets of integers count from and what one more of them is.
func (f *Fixed) WholeOffsets() (base, unit int64) {
	scale := int64(f.narrow.scale * f.Unit)
	return f.narrow.base * scale, f.narrow.unit * scale
}

// NarrowScale is what one more of an offset is in units.
func (f *Fixed) NarrowScale() float64 { return float64(f.narrow.unit) * f.narrow.scale }

// NarrowSum is the sum, in units, of n values with offsets whose sum is s.
func (f *Fixed) NarrowSum(s uint64, n int) float64 {
	return float64(f.narrow.base*int64(n)+f.narrow.unit*int64(s)) * f.narrow.scale
}

// Range returns the least and the largest of the units. There must be one.
func Range(units []uint32) (low, high uint32) {
	low, high, n := rangeOfSome(units)
	for _, u := range units[n:] {
		low, high = min(low, u), max(high, u)
	}
	return low, high
}

// MaxInteger is the number from which on not every integer is a float64.
const MaxInteger = 1 << 53

// IsInteger reports whether v is an integer, and not one that its neighbours may be
// missing of, or the zero below zero, which as an integer is the one above.
func IsInteger(v float64) bool {
	return v > -MaxInteger && v < MaxInteger && math.Float64bits(float64(int64(v))) == math.Float64bits(v)
}
