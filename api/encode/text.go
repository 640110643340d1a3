package encode

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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
		return binary.LittleEndian.AppendUint64(appendWhole(b, n/1e8), eightDigits(n%1e8)|zeros)
	}
	digits := eightDigits(n)
	leading := bits.TrailingZeros64(digits|1<<56) / 8 // zeros, of which the last digit is none
	b = binary.LittleEndian.AppendUint64(b, (digits|zeros)>>(8*leading))
	return b[:len(b)-leading]
}

// fives are the powers of five.
var fives = func() (all [23]uint64) {
	for k, power := 0, uint64(1); k < len(all); k, power = k+1, 5*power {
		all[k] = power
	}
	return all
}()

// appendFraction appends the shortest text of v, no integer and no power of two, from 1e-6 to below
// 2^53, of which all products fit into 128 bits: strconv takes twice as long.
//
//	v = m × 2^e, and all decimals between (m-1/2) × 2^e and (m+1/2) × 2^e are read as v. p is such
//	that of those with p decimals, d / 10^p, there are 1 to 10. The one that ends in 0 is shorter
//	than the others, and else the nearest is right. With s = 1-e-p, which is more than 0:
//
//	(2m-1) × 5^p / 2^s  <  d  <  (2m+1) × 5^p / 2^s, of which neither is an integer
func appendFraction(b []byte, v float64) []byte {
	m, e := math.Float64bits(v)&(1<<52-1)|1<<52, int(math.Float64bits(v)>>52)-1075
	p := -(e * 78913 >> 18) // that of 10^p × 2^e, which is 1 to 10
	five, s := fives[p], 1-e-p
	shift := func(hi, lo uint64) uint64 { return hi<<(64-s) | lo>>s }
	hi, lo := bits.Mul64(2*m, five)
	below, borrow := bits.Sub64(lo, five, 0)
	above, carry := bits.Add64(lo, five, 0)
	d, rest, half := shift(hi, lo), lo&(1<<s-1), uint64(1)<<(s-1)
	d += (rest + half - 1 + d&1) >> s // to the nearest, the even one of two
	if round := shift(hi+carry, above) / 10 * 10; round > shift(hi-borrow, below) {
		d = round
	}
	whole := uint64(v)
	d -= whole * five << p
	b = append(appendWhole(b, whole), '.')
	if p > 16 {
		b = append(append(b, "00000"[:p-17]...), '0'+byte(d/1e16))
		d, p = d%1e16, 16
	}
	d *= fives[16-p] << (16 - p)
	digits := eightDigits(d / 1e8)
	b = binary.LittleEndian.AppendUint64(b, digits|zeros)
	if d %= 1e8; d > 0 {
		digits = eightDigits(d)
		b = binary.LittleEndian.AppendUint64(b, digits|zeros)
	}
	return b[:len(b)-bits.LeadingZeros64(digits)/8]
}

// zeros is the text of eight zeros.
const zeros = 0x3030303030303030

// eightDigits are the digits of n, below 10^8, a byte each, the first one in the lowest byte.
func eightDigits(n uint64) uint64 {
	n = n/1e4 | n%1e4<<32
	hundreds := n * 10486 >> 20 & 0x7f0000007f
	n = hundreds | (n-100*hundreds)<<16
	tens := n * 103 >> 10 & 0xf000f000f000f
	return tens | (n-10*tens)<<8
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
