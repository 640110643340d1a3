package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A file holds what one selector matched over some stretches of time:
//
//	slabs    one after another, with the chunks as in memory: each at a multiple
//	         of 8 bytes, in the order of the series and their time; as many to a
//	         slab as fit
//	series   the labels of each series and its chunks: how long after the one
//	         before each begins, how long it is in time and in bytes, its number
//	         of samples, its encoding
//	head     the selector, the stretches, the files that this one replaces, the
//	         length and checksum of each slab
//	footer   64 bytes, see footer
//
// Numbers are variable-length integers, those of the footer and checksums are
// little-endian. Checksums are CRC-32C. It is written from front to back, so a
// file that has an end has everything.

// footer is the end of a file.
type footer struct {
	identity  [16]byte // of the source that the samples are from
	seq       uint64   // number of the file, which its name says, too
	size      uint64   // bytes of the whole file
	seriesLen uint64
	headLen   uint32
	seriesSum uint32
	headSum   uint32
}

const (
	magic      = "pwTILES1"
	footerSize = 64
	// slabSize is the most bytes of a slab, unless one chunk is larger.
	slabSize = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func (f *footer) append(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = append(b, f.identity[:]...)
	b = binary.LittleEndian.AppendUint64(b, f.seq)
	b = binary.LittleEndian.AppendUint64(b, f.size)
	b = binary.LittleEndian.AppendUint64(b, f.seriesLen)
	b = binary.LittleEndian.AppendUint32(b, f.headLen)
	b = binary.LittleEndian.AppendUint32(b, f.seriesSum)
	b = binary.LittleEndian.AppendUint32(b, f.headSum)
	return binary.LittleEndian.AppendUint32(b, checksum(b[start:]))
}

// errNotOurs is the error of a file that another program has written, or that
// has no end.
var errNotOurs = errors.New("it does not end as a file of cached tiles does")

// parseFooter reads the footer at the end of b.
func parseFooter(b []byte) (f footer, err error) {
	if len(b) < footerSize {
		return f, errNotOurs
	}
	b = b[len(b)-footerSize:]
	if !bytes.HasPrefix(b, []byte(magic)) {
		return f, errNotOurs
	}
	if binary.LittleEndian.Uint32(b[60:]) != checksum(b[:60]) {
		return f, errors.New("its footer does not match its checksum")
	}
	copy(f.identity[:], b[8:])
	f.seq = binary.LittleEndian.Uint64(b[24:])
	f.size = binary.LittleEndian.Uint64(b[32:])
	f.seriesLen = binary.LittleEndian.Uint64(b[40:])
	f.headLen = binary.LittleEndian.Uint32(b[48:])
	f.seriesSum = binary.LittleEndian.Uint32(b[52:])
	f.headSum = binary.LittleEndian.Uint32(b[56:])
	return f, nil
}

// Stretch is a stretch of time, From included, To not, and when it was fetched;
// all in ms.
type Stretch struct{ From, To, At int64 }

// head says what is in a file.
type head struct {
	key      string
	covered  []Stretch
	replaces []uint64
	slabs    []slabHead
}

type slabHead struct {
	size uint64 // bytes
	sum  uint32
}

func (h *head) append(b []byte) []byte {
	b = appendString(b, h.key)
	b = binary.AppendUvarint(b, uint64(len(h.covered)))
	for _, s := range h.covered {
		b = binary.AppendVarint(b, s.From)
		b = binary.AppendVarint(b, s.To)
		b = binary.AppendVarint(b, s.At)
	}
	b = binary.AppendUvarint(b, uint64(len(h.replaces)))
	for _, seq := range h.replaces {
		b = binary.AppendUvarint(b, seq)
	}
	b = binary.AppendUvarint(b, uint64(len(h.slabs)))
	for _, s := range h.slabs {
		b = binary.AppendUvarint(b, s.size)
		b = binary.LittleEndian.AppendUint32(b, s.sum)
	}
	return b
}

func parseHead(b []byte) (h head, err error) {
	r := reader{b: b}
	h.key = string(r.bytes())
	for range r.count(3) {
		h.covered = append(h.covered, Stretch{r.varint(), r.varint(), r.varint()})
	}
	for range r.count(1) {
		h.replaces = append(h.replaces, r.uvarint())
	}
	for range r.count(5) {
		h.slabs = append(h.slabs, slabHead{r.uvarint(), r.uint32()})
	}
	return h, r.end()
}

// reader reads numbers and strings. Once something is wrong it reads zeros.
type reader struct {
	b    []byte
	fail bool
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (r *reader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 { // most are short
		v := uint64(r.b[0])
		r.b = r.b[1:]
		return v
	}
	return r.longUvarint()
}

func (r *reader) longUvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return v * r.advance(n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	return v * int64(r.advance(n))
}

// advance goes on by n bytes and returns 1, or 0 if there are none.
func (r *reader) advance(n int) uint64 {
	if n <= 0 || n > len(r.b) || r.fail {
		r.fail = true
		return 0
	}
	r.b = r.b[n:]
	return 1
}

func (r *reader) uint32() uint32 {
	if len(r.b) < 4 {
		r.fail = true
		return 0
	}
	v := binary.LittleEndian.Uint32(r.b)
	r.advance(4)
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail = true
		return 0
	}
	v := r.b[0]
	r.advance(1)
	return v
}

// bytes reads a string; the result is part of what is read.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail = true
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

// count reads the number of items that follow, of at least least bytes each.
func (r *reader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/least) {
		r.fail = true
		return 0
	}
	return int(n)
}

// end reports whether all went well and nothing is left.
func (r *reader) end() error {
	if r.fail {
		return errors.New("its index is malformed")
	}
	if len(r.b) > 0 {
		return fmt.Errorf("its index has %d bytes too many", len(r.b))
	}
	return nil
}
