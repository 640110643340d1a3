package cpuexec

import (
	"math"
	"math/bits"
)

// wide is an integer of 192 bits in two's complement, the lowest word first.
// Sums of such integers are exact, so a window's sum stays exact however many
// samples have entered and left it, and it does not depend on their order.
type wide struct{ w0, w1, w2 uint64 }

// plus is a + x.
func (a wide) plus(x int64) wide {
	sign := uint64(x >> 63)
	var c uint64
	a.w0, c = bits.Add64(a.w0, uint64(x), 0)
	a.w1, c = bits.Add64(a.w1, sign, c)
	a.w2, _ = bits.Add64(a.w2, sign, c)
	return a
}

// add is a + b.
func (a wide) add(b wide) wide {
	var c uint64
	a.w0, c = bits.Add64(a.w0, b.w0, 0)
	a.w1, c = bits.Add64(a.w1, b.w1, c)
	a.w2, _ = bits.Add64(a.w2, b.w2, c)
	return a
}

// sub is a - b.
func (a wide) sub(b wide) wide {
	var c uint64
	a.w0, c = bits.Sub64(a.w0, b.w0, 0)
	a.w1, c = bits.Sub64(a.w1, b.w1, c)
	a.w2, _ = bits.Sub64(a.w2, b.w2, c)
	return a
}

// product is x · y.
func product(x, y int64) wide {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	hi -= uint64(x>>63)&uint64(y) + uint64(y>>63)&uint64(x)
	return wide{lo, hi, uint64(int64(hi) >> 63)}
}

// times is a · n.
func (a wide) times(n int) wide {
	h0, l0 := bits.Mul64(a.w0, uint64(n))
	h1, l1 := bits.Mul64(a.w1, uint64(n))
	w1, c := bits.Add64(l1, h0, 0)
	return wide{l0, w1, a.w2*uint64(n) + h1 + c}
}

// mul is a · b, which must fit.
func (a wide) mul(b wide) wide {
	h00, l00 := bits.Mul64(a.w0, b.w0)
	h01, l01 := bits.Mul64(a.w0, b.w1)
	h10, l10 := bits.Mul64(a.w1, b.w0)
	w1, c1 := bits.Add64(l01, h00, 0)
	w1, c2 := bits.Add64(w1, l10, 0)
	return wide{l00, w1, h01 + h10 + c1 + c2 + a.w0*b.w2 + a.w1*b.w1 + a.w2*b.w0}
}

// float is the float64 nearest to a, of two equally near the even one.
func (a wide) float() float64 {
	sign := a.w2 & (1 << 63)
	if sign != 0 {
		a = wide{}.sub(a)
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
