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

// longestFloat is how many bytes putFloat may write.
const longestFloat = 32

// AppendFloat appends a value as Prometheus writes it: strconv's shortest text, without an exponent
// from 1e-6 to below 1e21.
func AppendFloat(b []byte, v float64) []byte {
	n := len(b)
	if cap(b)-n < longestFloat {
		b = slices.Grow(b, longestFloat)
	}
	return b[:n+putFloat((*[longestFloat]byte)(b[n:n+longestFloat]), v)]
}

// putFloat writes what AppendFloat appends, and returns how many bytes that is. It may write more.
func putFloat(to *[longestFloat]byte, v float64) int {
	abs, format := math.Abs(v), byte('f')
	to[0] = '-'
	sign := int(math.Float64bits(v) >> 63)
	digits := (*[longestFloat - 1]byte)(to[sign : sign+longestFloat-1])
	switch {
	case abs < 1<<53 && float64(int64(v)) == v && (v != 0 || sign == 0):
		return sign + putWhole(digits, uint64(int64(abs))) // all digits of an integer are the shortest text
	case abs >= 1e-6 && abs < 1<<53:
		return sign + putFraction(digits, abs)
	case abs >= 1e21 || abs < 1e-6 && abs > 0:
		format = 'e'
	}
	return len(strconv.AppendFloat(to[:0], v, format, -1, 64))
}

// putWhole writes n, below 10^16.
func putWhole(to *[longestFloat - 1]byte, n uint64) int {
	at := 0
	if n >= 1e8 {
		at = putWhole(to, n/1e8) & 15
		binary.LittleEndian.PutUint64(to[at:], eightDigits(n%1e8))
		return at + 8
	}
	digits := eightDigits(n)
	leading := bits.TrailingZeros64(digits^zeros|1<<56) / 8 // zeros, of which the last digit is none
	binary.LittleEndian.PutUint64(to[:], digits>>(8*leading&63))
	return 8 - leading
}

// putFraction writes the shortest text of v, no integer, from 1e-6 to below 2^53: strconv takes more than
// twice as long. No branch of it depends on the digits.
func putFraction(to *[longestFloat - 1]byte, v float64) int {
	d, whole := shortest(v)
	upper := d / 1e8
	first := upper / 1e8
	upper, lower := eightDigits(upper-1e8*first), eightDigits(d-1e8*upper)
	first |= '0'
	after := 8 + (bits.Len64(lower^zeros)+7)/8 // digits after the first one, without zeros at the end
	if lower == zeros {
		after = (bits.Len64(upper^zeros) + 7) / 8
	}
	switch {
	case whole <= 0:
		binary.LittleEndian.PutUint64(to[:], zeros&^0xff00|'.'<<8)
		at := (2 - whole) & 7
		to[at] = byte(first)
		binary.LittleEndian.PutUint64(to[at+1:], upper)
		binary.LittleEndian.PutUint64(to[at+9:], lower)
		return at + 1 + after
	case whole <= 8:
		binary.LittleEndian.PutUint64(to[10:], lower)
		binary.LittleEndian.PutUint64(to[2:], upper)
		binary.LittleEndian.PutUint64(to[1:], withPoint(upper, whole-1))
	default:
		binary.LittleEndian.PutUint64(to[10:], lower)
		binary.LittleEndian.PutUint64(to[1:], upper)
		binary.LittleEndian.PutUint64(to[9:], withPoint(lower, whole-9))
	}
	to[0] = byte(first)
	return 2 + after
}

// withPoint puts a point behind the first of eight digits, of which before are at most seven. The last
// digit falls out.
func withPoint(digits uint64, before int) uint64 {
	after := digits & (math.MaxUint64 << (8 * before & 63))
	return digits ^ after | after<<8 | '.'<<(8*before&63)
}

// scale is how fractions with one exponent of two become decimals: see shortest.
type scale struct {
	w     uint64
	whole int // digits before the point, of 17
}

// leastExponent is that of 1e-6, as a float64 has it.
const leastExponent = 1003

// scales are those of the exponents from leastExponent on to that of 2^52.
var scales = func() (all [128]scale) {
	for i := range 73 {
		e := i + leastExponent - 1075
		p, five := -(e * 78913 >> 18), uint64(1)
		for range p {
			five *= 5
		}
		all[i] = scale{five << (59 + e + p), 17 - p}
	}
	return all
}()

// shortest returns the number of 17 digits d that are, without zeros at their end, the shortest text of
// v, which is as of putFraction: so all products fit into 128 bits. whole of them are before the point.
//
//	v = m × 2^e, and all decimals between (m-1/2) × 2^e and (m+1/2) × 2^e are read as v. p is such
//	that of those with p decimals there are 1 to 10. The one that ends in 0 is shorter than the
//	others, and else the nearest is right. With w = 10^p × 2^(e-1), which is 1/2 to 5, and here has
//	60 binary digits behind the point:
//
//	(2m-1) × w  <  d  <  (2m+1) × w, of which neither is an integer
//
// Decimals lie closer below a power of two, but of those the text has all digits, at most 14.
func shortest(v float64) (d uint64, whole int) {
	m := math.Float64bits(v)
	s := &scales[(m>>52-leastExponent)&127]
	d, lo := bits.Mul64(m<<12>>7|1<<57, s.w)
	_, borrow := bits.Sub64(lo, s.w<<4, 0)
	below := d - s.w>>60 - borrow
	_, carry := bits.Add64(lo, s.w<<4, 0)
	round := (d + s.w>>60 + carry) / 10 * 10
	_, carry = bits.Add64(lo, 1<<63-1+d&1, 0) // to the nearest, the even one of two
	d += carry
	d ^= (d ^ round) & uint64(int64(below-round)>>63) // round, if it is above below
	short := (d - 1e16) >> 63                         // 1 for 16 digits
	return d + 9*d&-short, s.whole - int(short)
}

// zeros is the text of eight zeros.
const zeros = 0x3030303030303030

// eightDigits is the text of n, below 10^8, the first digit in the lowest byte: halves of four digits, of
// two and of one lie side by side, and each step divides all of them at once.
func eightDigits(n uint64) uint64 {
	n = n<<32 - (1e4<<32-1)*uint64(uint32(n)/1e4)
	n = n<<16 - (100<<16-1)*(n*10486>>20&0x7f0000007f)
	return n<<8 - (10<<8-1)*(n*103>>10&0xf000f000f000f) | zeros
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
