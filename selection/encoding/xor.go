package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// An XOR chunk, in bits:
//
//	16          number of samples
//	8…80, 64    time of the first sample as a varint, its value
//	8…80, x     distance of the second one as a varint, its value as below
//	1…68, x     each further one: how its distance differs from the one before, its value
//
//	0           distances are the same          x = 0          the value is the same
//	10    14    they differ by 14 bits          10 n           n bits of the two values' XOR,
//	110   17                                                   those of the window
//	1110  20                                    11 5 6 n       another window: how many zeros
//	1111  64                                                   are before it, how long it is

// AppendXOR appends an XOR chunk of at least one sample and at most 65535. times are in ms
// since the epoch and ascend; there is a value for each. The bytes are those that
// Prometheus's appender writes.
func AppendXOR(to []byte, times []int64, values []float64) []byte {
	return appendXOR(to, times, values, 64)
}

// AppendTightXOR is AppendXOR in fewer bytes where values differ much from one another, as those
// of samples that lie far apart. Prometheus's appender keeps a window of bits that once was
// wide; this one writes another where that pays at once.
func AppendTightXOR(to []byte, times []int64, values []float64) []byte {
	return appendXOR(to, times, values, windowBits)
}

// windowBits is how many bits more a value costs that comes with a window of its own.
const windowBits = 11

// appendXOR writes another window for a value that would save more than slack bits.
func appendXOR(to []byte, times []int64, values []float64, slack uint) []byte {
	to = slices.Grow(to, MostXORBytes(len(times)))
	w := bitWriter{b: to}
	w.write(uint64(len(times)), 16)
	t, v := times[0], math.Float64bits(values[0])
	w.writeVarint(uint64(t)<<1 ^ uint64(t>>63))
	w.write(v, 64)

	var delta uint64                       // between the last two times
	leading, trailing := uint(64), uint(0) // zeros around the bits that differ; at first more than there can be
	for i := 1; i < len(times); i++ {
		d := uint64(times[i] - t)
		if i == 1 {
			w.writeVarint(d)
		} else {
			w.writeDelta(int64(d - delta))
		}
		t, delta = times[i], d

		x := math.Float64bits(values[i]) ^ v
		v ^= x
		if x == 0 {
			w.write(0, 1)
			continue
		}
		before, behind := min(uint(bits.LeadingZeros64(x)), 31), uint(bits.TrailingZeros64(x))
		if before >= leading && behind >= trailing && before+behind <= leading+trailing+slack {
			w.write(0b10, 2)
		} else {
			leading, trailing = before, behind
			w.writeWindow(leading, 64-leading-trailing)
		}
		w.write(x>>trailing, 64-leading-trailing)
	}
	return w.end()
}

// MostXORBytes is the most bytes that AppendXOR needs for an XOR chunk of n samples:
// the header; times of at most 10 bytes in the first two and 68 bits in others;
// values of at most 77 bits; and the word being written.
func MostXORBytes(n int) int { return 2 + 2*10 + 10*n + 9*n + 8 }

// bitWriter writes bits, the highest of a byte first, into b, whose capacity must
// suffice for whole words.
type bitWriter struct {
	b    []byte
	word uint64 // not written yet, from its highest bit on
	used uint   // bits of it, less than 64
}

// write writes the n lowest bits of v, which has no others. n is 1 to 64.
func (w *bitWriter) write(v uint64, n uint) {
	w.used += n
	if w.used < 64 {
		w.word |= v << (64 - w.used)
		return
	}
	w.used -= 64
	w.b = binary.BigEndian.AppendUint64(w.b, w.word|v>>w.used)
	w.word = v << (64 - w.used)
}

// writeVarint writes v seven bits at a time, the lowest first.
func (w *bitWriter) writeVarint(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		w.write(v&0x7f|0x80, 8)
	}
	w.write(v, 8)
}

// writeDelta writes by how much the distance of two times differs from that before.
func (w *bitWriter) writeDelta(d int64) {
	fits := func(n uint) bool { return -(1<<(n-1)-1) <= d && d <= 1<<(n-1) }
	switch {
	case d == 0:
		w.write(0, 1)
	case fits(14):
		w.write(0b10<<14|uint64(d)&(1<<14-1), 16)
	case fits(17):
		w.write(0b110<<17|uint64(d)&(1<<17-1), 20)
	case fits(20):
		w.write(0b1110<<20|uint64(d)&(1<<20-1), 24)
	default:
		w.write(0b1111, 4)
		w.write(uint64(d), 64)
	}
}

// writeWindow writes that the bits of a value that differ are the length ones after so
// many. A length of 64 does not fit and is written as 0.
func (w *bitWriter) writeWindow(leading, length uint) {
	w.write(0b11<<11|uint64(leading)<<6|uint64(length)&63, 13)
}

// end writes what is left and returns all bytes.
func (w *bitWriter) end() []byte {
	n := len(w.b) + int(w.used+7)/8
	return binary.BigEndian.AppendUint64(w.b, w.word)[:n]
}
