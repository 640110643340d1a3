// Package encoding reads and writes encoded chunks as bytes: their headers, whether these can be
// true, and XOR chunks, which it makes of floats. It knows nothing of where chunks lie, nor of
// their samples, which Prometheus decodes.
//
// Start with the picture of an XOR chunk in xor.go.
package encoding

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// HeaderBytes is the length of the header of chunks in encoding e: a sample
// count and, except with XOR, a byte of flags.
func HeaderBytes(e chunkenc.Encoding) int {
	if e == chunkenc.EncXOR {
		return 2
	}
	return 3
}

// SampleCount reads the sample count in the header of data. The histogram
// encodings with start timestamps use its two highest bits for a flag.
func SampleCount(e chunkenc.Encoding, data []byte) uint16 {
	n := binary.BigEndian.Uint16(data)
	if e == chunkenc.EncHistogramST || e == chunkenc.EncFloatHistogramST {
		n &= 1<<14 - 1
	}
	return n
}

// LastTime decodes a chunk to find the time of its last sample (ms).
func LastTime(e chunkenc.Encoding, data []byte) (int64, error) {
	c, err := chunkenc.FromData(e, data)
	if err != nil {
		return 0, err
	}
	var t int64
	it := c.Iterator(nil)
	for it.Next() != chunkenc.ValNone {
		t = it.AtT()
	}
	return t, it.Err()
}

// headerCosts are the bits that samples take in an encoding of floats, from the fewest to the
// most: the first one with the header, the second one, each further one.
type headerCosts struct{ first, second, further [2]int }

var (
	xorCosts = headerCosts{[2]int{16 + 8 + 64, 16 + 80 + 64}, [2]int{8 + 1, 80 + 77}, [2]int{1 + 1, 68 + 77}}
	// A start timestamp takes up to 80 bits in the first sample and 72 in others.
	xor2Costs = headerCosts{[2]int{24 + 8 + 64, 24 + 80 + 64 + 80}, [2]int{8 + 1, 80 + 78 + 72}, [2]int{1, 5 + 64 + 78 + 72}}
)

// CheckHeader refuses a chunk of samples from minT to maxT (ms) whose first sample is not
// among them, or which has fewer or more bits than as many samples as it counts may take.
// It is for chunks from outside the program, beside what samples.Writer checks. It decodes
// nothing and takes some 10 ns; those who decode the chunk check the rest.
func CheckHeader(e chunkenc.Encoding, minT, maxT int64, data []byte) error {
	if len(data) < HeaderBytes(e) {
		return nil // which samples.Writer says
	}
	n := int(SampleCount(e, data))
	if n == 0 {
		if len(data) > HeaderBytes(e) {
			return fmt.Errorf("it counts 0 samples, which never take as many as %d bytes", len(data))
		}
		return nil
	}
	if e != chunkenc.EncXOR && e != chunkenc.EncXOR2 {
		if n > 8*len(data) {
			return fmt.Errorf("it counts %d samples, more than fit into %d bytes", n, len(data))
		}
		return nil
	}
	t, read := binary.Varint(data[HeaderBytes(e):])
	if read <= 0 {
		return fmt.Errorf("its first sample has no time: %w", io.ErrUnexpectedEOF)
	}
	if t < minT || t > maxT {
		return fmt.Errorf("its first sample, at %d ms, lies outside its stated time range of %d to %d ms", t, minT, maxT)
	}
	costs := &xorCosts
	if e == chunkenc.EncXOR2 {
		costs = &xor2Costs
	}
	if least := costs.of(n, 0); least > 8*len(data) {
		return fmt.Errorf("it counts %d samples, more than fit into %d bytes", n, len(data))
	}
	if most := costs.of(n, 1); most+7 < 8*len(data) {
		return fmt.Errorf("it counts %d samples, which never take as many as %d bytes", n, len(data))
	}
	return nil
}

// of returns the fewest bits, 0, or the most, 1, that n samples take with the header.
func (c *headerCosts) of(n, which int) int {
	bits := c.first[which]
	if n > 1 {
		bits += c.second[which] + (n-2)*c.further[which]
	}
	return bits
}

// CheckLayout reads the bucket layout at the start of a histogram chunk and
// refuses what Prometheus's decoders do not survive: more buckets than the
// chunk has room for, which they would allocate, tens of GB if a bit is wrong,
// and spans that overlap, at which they may panic.
func CheckLayout(e chunkenc.Encoding, data []byte) error {
	perBucket := uint64(1) // fewest bits that a bucket of the first sample takes
	switch e {
	case chunkenc.EncHistogram, chunkenc.EncHistogramST:
	case chunkenc.EncFloatHistogram, chunkenc.EncFloatHistogramST:
		perBucket = 64
	default:
		return nil
	}
	r := bitReader{data: data, at: 8 * uint64(HeaderBytes(e))}
	if threshold := r.bits(8); threshold == 255 {
		r.bits(64)
	}
	r.varbit() // schema
	var buckets uint64
	for range 2 { // positive and negative
		spans, _ := r.varbit()
		for i := uint64(0); i < spans && !r.ended; i++ {
			length, _ := r.varbit()
			buckets += uint64(uint32(length))
			if offset := r.signedVarbit(); i > 0 && offset < 0 {
				return fmt.Errorf("bucket layout has a span with offset %d", offset)
			}
		}
	}
	if r.ended {
		return fmt.Errorf("bucket layout: %w", io.ErrUnexpectedEOF)
	}
	if room := 8*uint64(len(data)) - r.at; buckets > room/perBucket {
		return fmt.Errorf("bucket layout has %d buckets, more than fit into %d bytes", buckets, len(data))
	}
	return nil
}

// bitReader reads bits, the highest of a byte first. Beyond the end it reads
// zeros and says so.
type bitReader struct {
	data  []byte
	at    uint64 // bits read
	ended bool
}

func (r *bitReader) bits(n int) (v uint64) {
	if r.at+uint64(n) > 8*uint64(len(r.data)) {
		r.ended = true
		return 0
	}
	for range n {
		v = v<<1 | uint64(r.data[r.at/8]>>(7-r.at%8)&1)
		r.at++
	}
	return v
}

// varbitBits is the number of value bits behind as many ones as the index.
var varbitBits = [...]int{0, 3, 6, 9, 12, 18, 25, 56, 64}

// varbit reads an unsigned number in Prometheus's varbit encoding: up to eight
// ones, the last followed by a zero unless there are eight, and as many bits as
// they say. n is how many these are.
func (r *bitReader) varbit() (v uint64, n int) {
	ones := 0
	for ones < 8 && r.bits(1) == 1 {
		ones++
	}
	n = varbitBits[ones]
	return r.bits(n), n
}

// signedVarbit reads a signed number in varbit encoding, whose n bits stand for
// 1-2^(n-1) to 2^(n-1). Like Prometheus's it is cut to 32 bits.
func (r *bitReader) signedVarbit() int32 {
	v, n := r.varbit()
	if n > 0 && n < 64 && v > 1<<(n-1) {
		v -= 1 << n
	}
	return int32(v)
}
