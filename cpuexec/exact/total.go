package exact

import (
	"math"
	"math/bits"
)

// Total is the sum of values without rounding, so that it does not matter in which order they come,
// or which other sums it is the difference of. Values are multiples of a unit and below a power of
// two, such that 2^26 of them have a sum of 191 bits:
//
//	2^72  largest               value, 53 bits                   2^-92
//	  |.............|#####################################|.........|
type Total struct {
	Units Int192  // the sum, in units
	most  float64 // the largest magnitude, or more
	bits  int     // all are multiples of 2^-bits
}

const (
	totalBits  = 92 // the unit is 2^-92
	mostShift  = 111
	mostSummed = 1 << 26
)

// Add adds a value, unless it is not finite, too large, or no multiple of the unit: false is returned.
func (t *Total) Add(v float64) bool {
	x, low, ok := unitsOf(v)
	if ok && v != 0 {
		t.Units, t.most, t.bits = t.Units.Add(x), max(t.most, math.Abs(v)), max(t.bits, low)
	}
	return ok
}

// Cover has the bounds of t's values hold for those of o, too.
func (t *Total) Cover(o *Total) { t.most, t.bits = max(t.most, o.most), max(t.bits, o.bits) }

// unitsOf returns v in units, what is less cut off, and that v is a multiple of 2^-low. It reports
// false if anything was cut off, or v is too large.
func unitsOf(v float64) (x Int192, low int, ok bool) {
	if v == 0 {
		return x, 0, true
	}
	b := math.Float64bits(v)
	digits, shift := b&(1<<52-1)|1<<52, int(b>>52&0x7ff)-1075+totalBits
	if shift > mostShift {
		return x, 0, false
	}
	low = totalBits - shift - bits.TrailingZeros64(digits)
	digits >>= max(0, -shift)
	n := uint(max(0, shift))
	x = Int192{digits << n, digits>>(64-n) | digits<<(n-64), digits >> (128 - n)} // shifts below 0 are very large ones
	if b>>63 != 0 {
		x = Int192{}.Sub(x)
	}
	return x, low, low <= totalBits
}

// small reports whether all sums of n of the values are floats without rounding.
func (t *Total) small(n int) bool { return float64(n)*t.most <= math.Ldexp(1, 53-t.bits) }

// Sum is Prometheus's compensated sum s + c of all n values, from their true sum S. With u = 2^-53, and
// no value above M,
//
//	|s + c - S| <= n³·u²·M
//
// as in Fixed, so where S rounds to the same float with that added and taken away, that is s + c. It
// reports false elsewhere.
func (t *Total) Sum(n int) (float64, bool) {
	v := t.Units.Float() * powerOfTwo(-totalBits)
	if t.small(n) || n > mostSummed {
		return v, n <= mostSummed
	}
	off, _, _ := unitsOf(float64(n) * float64(n) * float64(n) * Rounding * Rounding * t.most)
	off = off.Plus(1)
	return v, t.Units.Sub(off).Float() == t.Units.Add(off).Float()
}

// Mean is Prometheus's mean of n values where the sum of any of them is exact: there is nothing to
// compensate then. It reports false elsewhere: the mean depends on the order of additions.
func (t *Total) Mean(n int) (float64, bool) {
	v, ok := t.Sum(n)
	return v / float64(n), ok && t.small(n)
}
