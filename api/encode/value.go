package encode

import (
	"math"
	"math/bits"
	"strconv"
)

// textBytes bounds the text of a value. The longest is that of a negative
// number a little above 1e-6 with 17 digits, 26 bytes.
const textBytes = 32

// valueBytes is the room that putFloat needs: it moves digits by copies of a
// fixed size.
const valueBytes = 40

// Below exactInts every integer is a float64, and its shortest text that reads
// back as the same float64 is all of its digits.
const exactInts = 1 << 53

// putFloat puts the text of v at b[n:], which has at least valueBytes bytes,
// and returns where it ends. The text is strconv's shortest, without an
// exponent from 1e-6 to below 1e21, as Prometheus writes it.
func putFloat(b []byte, n int, v float64) int {
	abs := math.Abs(v)
	if abs < exactInts {
		u := uint64(abs)
		if float64(u) == abs {
			if math.Signbit(v) {
				b[n] = '-'
				n++
			}
			return putUint(b, n, u)
		}
		if abs < maxDecimal {
			// Rounded to six decimals. If that reads back as v, it is the
			// shortest text that does: no two decimals of up to 15 digits
			// are the same float64. Both numbers are exact, so the division
			// rounds once, as reading the text does.
			u = uint64(abs*1e6 + 0.5)
			if float64(u)/1e6 == abs {
				if math.Signbit(v) {
					b[n] = '-'
					n++
				}
				return putDecimal(b, n, u)
			}
		}
		if abs >= 1e-6 {
			if math.Signbit(v) {
				b[n] = '-'
			}
			if end, ok := putFraction(b, n+int(math.Float64bits(v)>>63), abs); ok {
				return end
			}
		}
	}
	format := byte('f')
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return len(strconv.AppendFloat(b[:n], v, format, -1, 64))
}

// maxDecimal is the float from which on six decimals may be more than 15 digits.
const maxDecimal = 1e9

// putDecimal puts u/1e6, which is no integer, at b[n:].
func putDecimal(b []byte, n int, u uint64) int {
	whole := u / 1e6
	n = putPlaces(b, n, whole, u-whole*1e6, 6)
	for b[n-1] == '0' {
		n--
	}
	return n
}

// pairs are the decimal digits of 0 to 99.
const pairs = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"

// powers are 10 to the 0 to 19.
var powers = func() (p [20]uint64) {
	p[0] = 1
	for i := range p[1:] {
		p[i+1] = 10 * p[i]
	}
	return p
}()

// digits is how many decimal digits u has; 0 has one.
func digits(u uint64) int {
	k := bits.Len64(u|1) * 1233 >> 12 // log10(2) is 0.30103, 1233/4096
	if u|1 >= powers[k] {
		k++
	}
	return k
}

// putUint puts u at b[n:] and returns where it ends.
func putUint(b []byte, n int, u uint64) int {
	if u < 10 {
		b[n] = byte('0' + u)
		return n + 1
	}
	end := n + digits(u)
	i := end
	for u >= 100 {
		q := u / 100
		p := 2 * (u - 100*q)
		i -= 2
		b[i], b[i+1] = pairs[p], pairs[p+1]
		u = q
	}
	if u >= 10 {
		b[n], b[n+1] = pairs[2*u], pairs[2*u+1]
	} else {
		b[n] = byte('0' + u)
	}
	return end
}

// AppendFloat appends the text of v.
func AppendFloat(b []byte, v float64) []byte {
	b, n := room(b, valueBytes)
	return b[:putFloat(b, n, v)]
}
