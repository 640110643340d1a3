package selection

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// ErrTooLarge is returned by a Builder whose chunk bytes exceed its limit.
var ErrTooLarge = errors.New("selection exceeds its byte limit")

const (
	firstSlab = 16 << 10 // bytes of a builder's first slab; each next one is twice as large
	maxSlab   = 4 << 20  // up to this many bytes
)

// Builder collects series and chunks into a Selection. Series may come in any
// order and more than once; chunks of a series too. It is not safe for
// concurrent use.
type Builder struct {
	sel      Selection
	limit    int64
	used     int64
	nextSlab int
	watch    watch
}

// NewBuilder returns a builder that fails with ErrTooLarge past limit bytes of
// chunk data; 0 means no limit.
func NewBuilder(limit int64) *Builder {
	return &Builder{limit: limit, nextSlab: firstSlab}
}

// Within makes Samples and Finish fail with ctx's error soon after ctx has ended, and returns b.
func (b *Builder) Within(ctx context.Context) *Builder {
	b.watch.ctx = ctx
	return b
}

// Grow makes room for further series, with a chunk each.
func (b *Builder) Grow(series int) {
	b.sel.series = slices.Grow(b.sel.series, series)
	b.sel.first = slices.Grow(b.sel.first, series+1)
	b.sel.chunks = slices.Grow(b.sel.chunks, series)
}

// Series starts a series; the chunks added next belong to it.
func (b *Builder) Series(l labels.Labels) {
	b.sel.series = append(b.sel.series, l)
	b.sel.first = append(b.sel.first, uint32(len(b.sel.chunks)))
}

// current returns the labels of the current series.
func (b *Builder) current() labels.Labels { return b.sel.series[len(b.sel.series)-1] }

// Chunk copies data, a chunk of the current series in encoding e with samples
// from minT to maxT (ms since the epoch, both included), into the slabs.
// A maxT of math.MaxInt64, as a store gives for a chunk still being written, is
// replaced by the time of the chunk's last sample.
func (b *Builder) Chunk(e chunkenc.Encoding, minT, maxT int64, data []byte) error {
	l := b.current()
	if !chunkenc.IsValidEncoding(e) {
		return fmt.Errorf("series %s: unknown chunk encoding %d; promwarp knows XOR, XOR2 and the histogram encodings", l, e)
	}
	if len(data) < headerBytes(e) {
		return &CorruptError{Series: l, MinT: minT, Err: fmt.Errorf("chunk of %d bytes is shorter than its header", len(data))}
	}
	if err := checkLayout(e, data); err != nil {
		return &CorruptError{Series: l, MinT: minT, Err: err}
	}
	if maxT == math.MaxInt64 {
		last, err := lastTime(e, data)
		if err != nil {
			return &CorruptError{Series: l, MinT: minT, Err: err}
		}
		maxT = last
	}
	if minT > maxT {
		return &CorruptError{Series: l, MinT: minT, Err: fmt.Errorf("its start is after its end, %d ms", maxT)}
	}
	n := sampleCount(e, data)
	if n == 0 {
		return nil
	}
	slab, off := b.room(len(data))
	if err := b.take(len(data)); err != nil {
		return fmt.Errorf("series %s: %w", l, err)
	}
	copy(b.sel.slabs[slab].b[off:], data)
	b.sel.chunks = append(b.sel.chunks, Chunk{
		MinT: minT, MaxT: maxT, Slab: slab, Off: off, Len: uint32(len(data)), Samples: n, Enc: e,
	})
	return nil
}

// room finds room for n bytes, with Pad more behind the last chunk of a slab. What is
// put there must be taken.
func (b *Builder) room(n int) (slab, off uint32) {
	need := Room(uint32(n))
	if k := len(b.sel.slabs); k > 0 {
		if s := b.sel.slabs[k-1]; cap(s.b)-len(s.b) >= need+Pad {
			return uint32(k - 1), uint32(len(s.b))
		}
	}
	size := max(b.nextSlab, need+Pad)
	b.nextSlab = min(2*b.nextSlab, maxSlab)
	b.sel.slabs = append(b.sel.slabs, newSlab(0, size))
	return uint32(len(b.sel.slabs) - 1), 0
}

const (
	chunkEntry = 40      // bytes of a chunk in the table, and that its place in a slab is rounded up by
	freeTable  = 1 << 20 // bytes of the table that count for nothing, however low the limit
)

// take takes n bytes of the room that was found last. The table is held to the limit of the
// chunk bytes, as chunks of a sample or none would otherwise take many times as much.
func (b *Builder) take(n int) error {
	b.used += int64(n)
	if b.limit > 0 && (b.used > b.limit || chunkEntry*int64(len(b.sel.chunks)) > max(b.limit, freeTable)) {
		return fmt.Errorf("%w of %d bytes", ErrTooLarge, b.limit)
	}
	s := b.sel.slabs[len(b.sel.slabs)-1]
	s.b = s.b[:len(s.b)+Room(uint32(n))]
	return nil
}

// Bytes is the number of chunk bytes added so far.
func (b *Builder) Bytes() int64 { return b.used }

// Arrange puts the series into another order: that which was added as number order[0],
// from 0, comes first, and so on. Finish is faster on series in label order.
func (b *Builder) Arrange(order []int32) {
	s := &b.sel
	from := *s
	from.first = append(from.first, uint32(len(s.chunks)))
	s.series = make([]labels.Labels, 0, len(order))
	s.first = make([]uint32, 0, len(order)+1)
	s.chunks = make([]Chunk, 0, len(from.chunks))
	for _, i := range order {
		s.series = append(s.series, from.series[i])
		s.first = append(s.first, uint32(len(s.chunks)))
		s.chunks = append(s.chunks, from.Chunks(int(i))...)
	}
}

// Finish sorts the series, joins those that came more than once, puts their
// chunks in time order without overlaps and returns the selection. The builder
// must not be used afterwards.
func (b *Builder) Finish() (*Selection, error) {
	defer b.watch.point.Leave()
	s := b.sel
	s.first = append(s.first, uint32(len(s.chunks)))
	if !s.normal() {
		if err := s.normalise(b.watch.ctx); err != nil {
			return nil, err
		}
	}
	s.own = true
	return s.finish(), nil
}

// lastTime decodes a chunk to find the time of its last sample.
func lastTime(e chunkenc.Encoding, data []byte) (int64, error) {
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
