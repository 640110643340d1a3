package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/encoding"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/slab"
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

// footer is the end of a file, as it lies there.
type footer struct {
	Magic     [8]byte
	Identity  [16]byte // of the source that the samples are from
	Seq       uint64   // number of the file, which its name says, too
	Size      uint64   // bytes of the whole file
	SeriesLen uint64
	HeadLen   uint32
	SeriesSum uint32
	HeadSum   uint32
	Sum       uint32 // of all before it
}

const (
	magic      = "pwTILES1"
	footerSize = 64
	// slabSize is the most bytes of a slab, unless one chunk is larger.
	slabSize = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// seal fills in what says that f is a footer, and returns it as it lies in a file.
func (f *footer) seal() []byte {
	copy(f.Magic[:], magic)
	b, _ := binary.Append(nil, binary.LittleEndian, f)
	f.Sum = checksum(b[:footerSize-4])
	return binary.LittleEndian.AppendUint32(b[:footerSize-4], f.Sum)
}

// parseFooter reads the footer at the end of b.
func parseFooter(b []byte) (f footer, err error) {
	b = b[max(0, len(b)-footerSize):]
	if _, err = binary.Decode(b, binary.LittleEndian, &f); err != nil || string(f.Magic[:]) != magic {
		return f, errors.New("it does not end as a file of cached tiles does")
	}
	if f.Sum != checksum(b[:footerSize-4]) {
		return f, errors.New("its footer does not match its checksum")
	}
	return f, nil
}

// head says what is in a file.
type head struct {
	key      string
	Covered  tile.Coverage // and when it was fetched
	replaces []uint64
	slabs    []slabHead
}

type slabHead struct {
	size uint64 // bytes
	sum  uint32
}

func (h *head) append(b []byte) []byte {
	b = appendString(b, h.key)
	b = binary.AppendUvarint(b, uint64(len(h.Covered)))
	for _, s := range h.Covered {
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
	r := &encoding.Decbuf{B: b}
	h.key = string(r.UvarintBytes())
	for range count(r, 3) {
		h.Covered = append(h.Covered, tile.Stretch{Span: tile.Span{From: r.Varint64(), To: r.Varint64()}, At: r.Varint64()})
	}
	for range count(r, 1) {
		h.replaces = append(h.replaces, r.Uvarint64())
	}
	for range count(r, 5) {
		h.slabs = append(h.slabs, slabHead{r.Uvarint64(), bits.ReverseBytes32(r.Be32())})
	}
	return h, end(r)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// count reads the number of items that follow, of at least least bytes each.
func count(r *encoding.Decbuf, least int) int {
	n := r.Uvarint64()
	if n > uint64(r.Len()/least) {
		r.E = encoding.ErrInvalidSize
		return 0
	}
	return int(n)
}

// end reports whether all went well and nothing is left.
func end(r *encoding.Decbuf) error {
	if r.E != nil {
		return fmt.Errorf("its index is malformed: %w", r.E)
	}
	if r.Len() > 0 {
		return fmt.Errorf("its index has %d bytes too many", r.Len())
	}
	return nil
}

// writeFile writes sel as a file to w. Of h the slabs are filled in, of f the
// sizes and checksums. It ends with ctx, between slabs.
func writeFile(ctx context.Context, w io.Writer, sel *selection.Selection, h *head, f *footer) error {
	size := 0 // of the slabs
	buf := make([]byte, 0, slabSize)
	flush := func() error {
		if err := ctx.Err(); err != nil || len(buf) == 0 {
			return err
		}
		h.slabs = append(h.slabs, slabHead{uint64(len(buf)), checksum(buf)})
		size += len(buf)
		_, err := w.Write(buf)
		buf = buf[:0]
		return err
	}
	series := binary.AppendUvarint(nil, uint64(sel.NumSeries()))
	series = binary.AppendUvarint(series, uint64(sel.NumChunks()))
	for i := range sel.NumSeries() {
		ls := sel.Labels(i)
		series = binary.AppendUvarint(series, uint64(ls.Len()))
		ls.Range(func(l labels.Label) { series = appendString(appendString(series, l.Name), l.Value) })
		cs := sel.Chunks(i)
		series = binary.AppendUvarint(series, uint64(len(cs)))
		last := int64(0)
		for _, c := range cs {
			series = binary.AppendVarint(series, c.MinT-last)
			series = binary.AppendUvarint(series, uint64(c.MaxT-c.MinT))
			series = binary.AppendUvarint(series, uint64(c.Len))
			series = binary.AppendUvarint(series, uint64(c.Samples))
			series = append(series, byte(c.Enc))
			last = c.MaxT
			if len(buf) > 0 && len(buf)+slab.Footprint(c.Len) > slabSize {
				if err := flush(); err != nil {
					return err
				}
			}
			end := len(buf) + slab.Footprint(c.Len)
			buf = append(buf, sel.Bytes(c)...)
			for len(buf) < end {
				buf = append(buf, 0)
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	index := h.append(nil)
	f.SeriesLen, f.SeriesSum = uint64(len(series)), checksum(series)
	f.HeadLen, f.HeadSum = uint32(len(index)), checksum(index)
	f.Size = uint64(size + len(series) + len(index) + footerSize)
	if _, err := w.Write(series); err != nil {
		return err
	}
	_, err := w.Write(append(index, f.seal()...))
	return err
}
