package encode

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
)

// AppendLabels appends a series' labels as an object.
func AppendLabels(b []byte, ls labels.Labels) []byte {
	b = append(b, '{')
	first := true
	ls.Range(func(l labels.Label) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = AppendString(b, l.Name)
		b = append(b, ':')
		b = AppendString(b, l.Value)
	})
	return append(b, '}')
}

// AppendString appends a string as Prometheus's API writes the names and values
// of labels: everything above the control characters stays as it is, HTML's
// characters, line separators and invalid UTF-8 included.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// AppendFloat appends a value as Prometheus writes it: strconv's shortest text, without an exponent
// from 1e-6 to below 1e21.
func AppendFloat(b []byte, v float64) []byte {
	abs, format := math.Abs(v), byte('f')
	switch powerOfTwo := math.Float64bits(v)<<12 == 0; {
	case abs >= 1e21 || abs < 1e-6 && abs > 0:
		format = 'e'
	case abs >= 1<<53 || v != v:
	case float64(int64(v)) == v && (v != 0 || !math.Signbit(v)):
		return appendWhole(appendSign(b, v), uint64(abs)) // all digits of an integer are the shortest text
	case !powerOfTwo:
		return appendFraction(appendSign(b, v), abs)
	}
	return strconv.AppendFloat(b, v, format, -1, 64)
}

func appendSign(b []byte, v float64) []byte {
	if v < 0 {
		return append(b, '-')
	}
	return b
}

// appendWhole appends n, below 10^16.
func appendWhole(b []byte, n uint64) []byte {
	if n >= 1e8 {
		return binary.LittleEndian.AppendUint64(appendWhole(b, n/1e8), eightDigits(n%1e8))
	}
	digits := eightDigits(n)
	leading := bits.TrailingZeros64(digits^zeros|1<<56) / 8 // zeros, of which the last digit is none
	b = binary.LittleEndian.AppendUint64(b, digits>>(8*leading))
	return b[:len(b)-leading]
}

// appendFraction appends the shortest text of v, no integer and no power of two, from 1e-6 to below
// 2^53: strconv takes more than twice as long. No branch of it depends on the digits.
func appendFraction(b []byte, v float64) []byte {
	d, p := shortest(v)
	upper := d / 1e8
	d -= 1e8 * upper
	first := upper / 1e8
	upper, lower := eightDigits(upper-1e8*first), eightDigits(d)
	first |= '0'
	trailing := bits.LeadingZeros64(lower^zeros) / 8
	if lower == zeros {
		trailing = 8 + bits.LeadingZeros64(upper^zeros)/8
	}
	n := len(b)
	if cap(b)-n < 32 {
		b = slices.Grow(b, 32)
	}
	to := (*[32]byte)(b[n : n+32])
	whole := 17 - p // digits before the point, of 17
	if whole <= 0 {
		binary.LittleEndian.PutUint64(to[:], zeros&^0xff00|'.'<<8)
		at := (2 - whole) & 7
		to[at] = byte(first)
		binary.LittleEndian.PutUint64(to[at+1:], upper)
		binary.LittleEndian.PutUint64(to[at+9:], lower)
		return b[:n+19-whole-trailing]
	}
	skip := int((first - '1') & uint64(1-whole) >> 63) // 1 for a zero before other digits
	whole -= skip
	text := (upper<<8 | first) >> (8 * skip & 63)
	if whole < 8 {
		before := uint64(1)<<(8*whole&63) - 1
		binary.LittleEndian.PutUint64(to[2-skip:], upper)
		binary.LittleEndian.PutUint64(to[10-skip:], lower)
		binary.LittleEndian.PutUint64(to[:], text&before|'.'<<(8*whole&63)|text&^before<<8)
	} else {
		binary.LittleEndian.PutUint64(to[:], text)
		binary.LittleEndian.PutUint64(to[1-skip:], upper)
		binary.LittleEndian.PutUint64(to[9-skip:], lower)
		copy(to[whole+1:], to[whole:17])
		to[whole] = '.'
	}
	return b[:n+18-skip-trailing]
}

// fives are the powers of five.
var fives = func() (all [23]uint64) {
	for k, power := 0, uint64(1); k < len(all); k, power = k+1, 5*power {
		all[k] = power
	}
	return all
}()

// shortest returns the number of 16 or 17 digits d such that d / 10^p, without zeros at its end, is the
// shortest text of v, which is as of appendFraction: so all products fit into 128 bits.
//
//	v = m × 2^e, and all decimals between (m-1/2) × 2^e and (m+1/2) × 2^e are read as v. p is such
//	that of those with p decimals there are 1 to 10. The one that ends in 0 is shorter than the
//	others, and else the nearest is right. With w = 10^p × 2^(e-1), which is 1/2 to 5, and here has
//	60 binary digits behind the point:
//
//	(2m-1) × w  <  d  <  (2m+1) × w, of which neither is an integer
func shortest(v float64) (d uint64, p int) {
	m, e := math.Float64bits(v)&(1<<52-1)|1<<52, int(math.Float64bits(v)>>52)-1075
	p = -(e * 78913 >> 18)
	w := fives[p] << ((59 + e + p) & 63)
	d, lo := bits.Mul64(m<<5, w)
	_, borrow := bits.Sub64(lo, w<<4, 0)
	below := d - w>>60 - borrow
	_, carry := bits.Add64(lo, w<<4, 0)
	round := (d + w>>60 + carry) / 10 * 10
	_, carry = bits.Add64(lo, 1<<63-1+d&1, 0) // to the nearest, the even one of two
	d += carry
	return d ^ (d^round)&uint64(int64(below-round)>>63), p // round, if it is above below
}

// zeros is the text of eight zeros.
const zeros = 0x3030303030303030

// fourDigits are the texts of 0 to 9999, the first digit in the lowest byte.
var fourDigits = func() (all [1 << 14]uint32) {
	for n := range uint32(1e4) {
		all[n] = uint32(zeros>>32) | n/1000 | n/100%10<<8 | n/10%10<<16 | n%10<<24
	}
	return all
}()

// eightDigits is the text of n, below 10^8, the first digit in the lowest byte.
func eightDigits(n uint64) uint64 {
	upper := n / 1e4
	return uint64(fourDigits[upper&(1<<14-1)]) | uint64(fourDigits[(n-1e4*upper)&(1<<14-1)])<<32
}

// appendTimestamp appends a time in ms as seconds, with three decimals unless
// they are all zero.
func appendTimestamp(b []byte, ms int64) []byte {
	if ms < 0 {
		b = append(b, '-')
		ms = -ms
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	if f := ms % 1000; f != 0 { // negative of the earliest time, which Prometheus writes so, too
		b = append(b, '.')
		if f < 100 {
			b = append(b, '0')
		}
		if f < 10 {
			b = append(b, '0')
		}
		b = strconv.AppendInt(b, f, 10)
	}
	return b
}
