package exact

import (
	"math"
	"math/bits"
	"slices"
)

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
