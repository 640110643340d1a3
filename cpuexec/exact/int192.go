// Package exact computes sums without rounding errors, and order statistics.
//
// Values of one series or group go in; out come sums, means, variances, least-squares lines,
// quantiles and median deviations with the bits of Prometheus's own operations, or the answer
// that these bits are uncertain. There are two ways to each: the plain function over a slice
// (Sum, Mean, Variance, Line, Quantile, MedianDeviation) makes Prometheus's operations in their
// order. Fixed, with sums in Int192, and Ranks let values enter and leave in any order without
// a trace, so that windows which share samples need not be computed anew.
//
// Start with Sum and Fixed.
package exact

import (
	"math"
	"math/bits"
)

// Int192 is an integer of 192 bits in two's complement, the lowest word first.
// Sums of such integers are exact, so a window's sum stays exact however many
// samples have entered and left it, and it does not depend on their order.
type Int192 struct{ w0, w1, w2 uint64 }

// Plus is a + x.
func (a Int192) Plus(x int64) Int192 {
	sign := uint64(x >> 63)
	var c uint64
	a.w0, c = bits.Add64(a.w0, uint64(x), 0)
	a.w1, c = bits.Add64(a.w1, sign, c)
	a.w2, _ = bits.Add64(a.w2, sign, c)
	return a
}

// Add is a + b.
func (a Int192) Add(b Int192) Int192 {
	var c uint64
	a.w0, c = bits.Add64(a.w0, b.w0, 0)
	a.w1, c = bits.Add64(a.w1, b.w1, c)
	a.w2, _ = bits.Add64(a.w2, b.w2, c)
	return a
}

// Sub is a - b.
func (a Int192) Sub(b Int192) Int192 {
	var c uint64
	a.w0, c = bits.Sub64(a.w0, b.w0, 0)
	a.w1, c = bits.Sub64(a.w1, b.w1, c)
	a.w2, _ = bits.Sub64(a.w2, b.w2, c)
	return a
}

// Product is x · y.
func Product(x, y int64) Int192 {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	hi -= uint64(x>>63)&uint64(y) + uint64(y>>63)&uint64(x)
	return Int192{lo, hi, uint64(int64(hi) >> 63)}
}

// Times is a · n.
func (a Int192) Times(n int) Int192 {
	h0, l0 := bits.Mul64(a.w0, uint64(n))
	h1, l1 := bits.Mul64(a.w1, uint64(n))
	w1, c := bits.Add64(l1, h0, 0)
	return Int192{l0, w1, a.w2*uint64(n) + h1 + c}
}

// Mul is a · b, which must fit.
func (a Int192) Mul(b Int192) Int192 {
	h00, l00 := bits.Mul64(a.w0, b.w0)
	h01, l01 := bits.Mul64(a.w0, b.w1)
	h10, l10 := bits.Mul64(a.w1, b.w0)
	w1, c1 := bits.Add64(l01, h00, 0)
	w1, c2 := bits.Add64(w1, l10, 0)
	return Int192{l00, w1, h01 + h10 + c1 + c2 + a.w0*b.w2 + a.w1*b.w1 + a.w2*b.w0}
}

// Shifted is a over 2^n, n below 64, where that is an int64.
func (a Int192) Shifted(n int) int64 { return int64(a.w0>>n | a.w1<<1<<(63-n)) }

// NumeratorOf is n times the sum of squares, which has a high and a low word, less the square of
// sum, which must not be negative or beyond 127 bits.
func NumeratorOf(high, low uint64, sum int64, n int) float64 {
	h, l := bits.Mul64(low, uint64(n))
	h += high * uint64(n)
	squareHigh, squareLow := bits.Mul64(uint64(max(sum, -sum)), uint64(max(sum, -sum)))
	l, borrow := bits.Sub64(l, squareLow, 0)
	return Int192{w0: l, w1: h - squareHigh - borrow}.Float()
}

// Float is the float64 nearest to a, of two equally near the even one.
func (a Int192) Float() float64 {
	sign := a.w2 & (1 << 63)
	if sign != 0 {
		a = Int192{}.Sub(a)
	}
	// The topmost 62 bits or more, the last of them set when any below is:
	// they round as the whole does.
	var top uint64
	var low int // bits below top
	switch {
	case a.w2 != 0:
		n := bits.LeadingZeros64(a.w2)
		top = a.w2<<n | a.w1>>1>>(63-n)
		if a.w1<<n|a.w0 != 0 {
			top |= 1
		}
		low = 128 - n
	case a.w1 != 0:
		n := bits.LeadingZeros64(a.w1)
		top = a.w1<<n | a.w0>>1>>(63-n)
		if a.w0<<n != 0 {
			top |= 1
		}
		low = 64 - n
	default:
		top = a.w0
	}
	top = top>>1 | top&1 // leave room for the sign of an int64
	f := float64(int64(top)) * powerOfTwo(low+1)
	if low == 0 && a.w0>>62 == 0 {
		f = float64(int64(a.w0))
	}
	return math.Float64frombits(math.Float64bits(f) | sign)
}

// powerOfTwo is 2^n, -1022 <= n <= 1023.
func powerOfTwo(n int) float64 { return math.Float64frombits(uint64(1023+n) << 52) }
