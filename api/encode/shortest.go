package encode

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The bits of a float64's significand, without the one that is not stored.
const significandBits = 52

// scale is what scales numbers of one exponent: 10^p is the least power of ten
// with 2^e·10^p ≥ 1, where e is the exponent of the significand's last bit.
type scale struct {
	pow5  uint64 // 5^p
	p     uint8
	shift uint8 // -(e+p)+1
}

// minExponent is e of 1e-6. From there to e = -1, the last that has fractions,
// 5^p takes no more than 52 bits.
const minExponent = -72

// scales are indexed by -e.
var scales = func() (t [-minExponent + 1]scale) {
	p, pow5 := 0, uint64(1)
	for i := 1; i < len(t); i++ {
		// 2^-i·10^p < 1 is 5^p < 2^(i-p).
		for bits.Len64(pow5) <= i-p {
			p++
			pow5 *= 5
		}
		t[i] = scale{pow5: pow5, p: uint8(p), shift: uint8(i - p + 1)}
	}
	return t
}()

// putFraction puts the text of a number that is not an integer, is at least
// 1e-6 and below 2^53 at b[n:], and returns where it ends. ok is false for a
// power of two, for which it puts nothing.
//
// The text is the shortest decimal that reads back as v, and of those the one
// nearest to v, the even one of two. With v = c·2^e and the scale's p, multiples
// of 10^-p are at most as far apart as the numbers that are read as v reach,
// v±2^(e-1), and multiples of 10^(1-p) are farther apart. So if one of the latter
// is in there, it is the only one, and without its trailing zeros the answer;
// else the answer is the multiple of 10^-p next to v. That much is the reasoning
// of R. Giulietti, "The Schubfach way to render doubles". For the exponents here
// it is done exactly: in units of 2^-shift, v·10^p is 2c·5^p and the ends are
// (2c±1)·5^p, of 106 bits at most. The ends are odd, hence never integers, so it
// does not matter which side they are read to.
func putFraction(b []byte, n int, v float64) (end int, ok bool) {
	u := math.Float64bits(v)
	c := u&(1<<significandBits-1) | 1<<significandBits
	e := int(u>>significandBits&0x7ff) - (1023 + significandBits)
	if c == 1<<significandBits {
		return n, false // reaches half as far down
	}
	s := &scales[-e]
	shift := s.shift & 63
	hi, lo := bits.Mul64(2*c, s.pow5)
	aboveLo, carry := bits.Add64(lo, s.pow5, 0)
	belowLo, borrow := bits.Sub64(lo, s.pow5, 0)
	above := (hi+carry)<<(64-shift) | aboveLo>>shift
	below := (hi-borrow)<<(64-shift) | belowLo>>shift
	places := int(s.p)
	d := above / 10
	if 10*d > below {
		places--
		if d%10 == 0 {
			var zeros int
			d, zeros = trimZeros(d)
			places -= zeros
		}
	} else {
		d = hi<<(64-shift) | lo>>shift
		rest, half := lo&(1<<shift-1), uint64(1)<<(shift-1)
		if rest > half || rest == half && d&1 == 1 {
			d++
		}
	}
	// No integer is between v and its text.
	whole := uint64(v)
	if whole > 0 {
		d -= whole * powers[places]
	}
	return putPlaces(b, n, whole, d, places), true
}

// trimZeros takes the zeros off the end of d, which has at most 16 digits, and
// returns how many.
func trimZeros(d uint64) (uint64, int) {
	zeros := 0
	if q := d / 1e8; q*1e8 == d {
		d, zeros = q, 8
	}
	if q := d / 1e4; q*1e4 == d {
		d, zeros = q, zeros+4
	}
	if q := d / 100; q*100 == d {
		d, zeros = q, zeros+2
	}
	if q := d / 10; q*10 == d {
		d, zeros = q, zeros+1
	}
	return d, zeros
}

// putPlaces puts whole, a point and the decimal places of frac/10^places at
// b[n:], at most 17 digits that count.
func putPlaces(b []byte, n int, whole, frac uint64, places int) int {
	n = putUint(b, n, whole)
	b[n] = '.'
	n++
	if places <= 16 {
		putSixteen(b, n, frac*powers[16-places])
		return n + places
	}
	// A number below 1, from 1e-6: at most five zeros follow the point.
	k := digits(frac)
	binary.LittleEndian.PutUint64(b[n:], 0x3030303030303030)
	n += places - k
	frac *= powers[17-k]
	first := frac / 1e16
	b[n] = byte('0' + first)
	putSixteen(b, n+1, frac-first*1e16)
	return n + k
}

// putSixteen puts the digits of u below 1e16 at b[n:], with zeros before them.
func putSixteen(b []byte, n int, u uint64) {
	q := u / 1e8
	binary.LittleEndian.PutUint64(b[n:], eightDigits(q))
	binary.LittleEndian.PutUint64(b[n+8:], eightDigits(u-q*1e8))
}

// eightDigits returns the digits of u below 1e8, the first in the lowest byte.
// It divides both halves by 100 at once, then all quarters by 10.
func eightDigits(u uint64) uint64 {
	q := u / 10000
	x := q | (u-10000*q)<<32
	q = x * 10486 >> 20 & 0x7f_0000_007f
	x = q | (x-100*q)<<16
	q = x * 103 >> 10 & 0xf_000f_000f_000f
	x = q | (x-10*q)<<8
	return x | 0x3030303030303030
}
