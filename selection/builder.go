package selection

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection/samples"
)

// Builder collects series and chunks into a Selection. Series may come in any
// order and more than once; chunks of a series too. It is not safe for
// concurrent use.
type Builder struct {
	sel Selection // its series, and where their chunks begin; the chunks are the writer's
	w   *samples.Writer
}

// NewBuilder returns a builder that fails with ErrTooLarge past limit bytes of
// chunk data; 0 means no limit.
func NewBuilder(limit int64) *Builder {
	return &Builder{w: samples.NewWriter(context.Background(), 0, limit)}
}

// Within makes Samples and Finish fail with ctx's error soon after ctx has ended, and returns b.
func (b *Builder) Within(ctx context.Context) *Builder {
	b.w.Watch.Ctx = ctx
	return b
}

// Grow makes room for further series, with a chunk each.
func (b *Builder) Grow(series int) {
	b.sel.series = slices.Grow(b.sel.series, series)
	b.sel.first = slices.Grow(b.sel.first, series+1)
	b.w.Chunks = slices.Grow(b.w.Chunks, series)
}

// Series starts a series; the chunks added next belong to it.
func (b *Builder) Series(l labels.Labels) {
	b.sel.series = append(b.sel.series, l)
	b.sel.first = append(b.sel.first, uint32(len(b.w.Chunks)))
	b.w.Series(l)
}

// Chunk copies data, a chunk of the current series in encoding e with samples
// from minT to maxT (ms since the epoch, both included), into the slabs.
// A maxT of math.MaxInt64, as a store gives for a chunk still being written, is
// replaced by the time of the chunk's last sample.
func (b *Builder) Chunk(e chunkenc.Encoding, minT, maxT int64, data []byte) error {
	return b.w.Chunk(e, minT, maxT, data)
}

// Floats adds float samples to the current series, in XOR chunks. times are in ms
// since the epoch and must ascend; there is a value for each.
func (b *Builder) Floats(times []int64, values []float64) error { return b.w.Floats(times, values) }

// Samples adds samples of any kind, which must be in time order, to the current
// series. Floats is faster where it will do.
func (b *Builder) Samples(from chunkenc.Iterator) error { return b.w.Samples(from) }

// Bytes is the number of chunk bytes added so far.
func (b *Builder) Bytes() int64 { return b.w.Bytes() }

// Arrange puts the series into another order: that which was added as number order[0],
// from 0, comes first, and so on. Finish is faster on series in label order.
func (b *Builder) Arrange(order []int32) {
	s := &b.sel
	from := *s
	from.chunks = b.w.Chunks
	from.first = append(from.first, uint32(len(from.chunks)))
	s.series = make([]labels.Labels, 0, len(order))
	s.first = make([]uint32, 0, len(order)+1)
	b.w.Chunks = make([]Chunk, 0, len(from.chunks))
	for _, i := range order {
		s.series = append(s.series, from.series[i])
		s.first = append(s.first, uint32(len(b.w.Chunks)))
		b.w.Chunks = append(b.w.Chunks, from.Chunks(int(i))...)
	}
}

// table returns what was added as it came.
func (b *Builder) table() Selection {
	s := b.sel
	s.first, s.chunks, s.slabs = append(s.first, uint32(len(b.w.Chunks))), b.w.Chunks, b.w.Slabs()
	return s
}

// Finish sorts the series, joins those that came more than once, puts their
// chunks in time order without overlaps and returns the selection. The builder
// must not be used afterwards.
func (b *Builder) Finish() (*Selection, error) {
	defer b.w.Watch.Leave()
	s := b.table()
	if !s.normal() {
		if err := s.normalise(b.w.Watch.Ctx); err != nil {
			return nil, err
		}
	}
	s.own = true
	return s.finish(), nil
}
