package selection

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/samples"
	"github.com/promwarp/promwarp/selection/slab"
)

// Builder collects series and chunks into a Selection. Series may come in any
// order and more than once; chunks of a series too. It is not safe for
// concurrent use.
type Builder struct {
	*samples.Writer
	sel Selection // its series, and where their chunks begin; the chunks are the writer's
}

// NewBuilder returns a builder that fails with ErrTooLarge past limit bytes of
// chunk data; 0 means no limit.
func NewBuilder(limit int64) *Builder {
	return &Builder{Writer: samples.NewWriter(context.Background(), 0, limit)}
}

// Within makes Samples and Finish fail with ctx's error soon after ctx has ended, and returns b.
func (b *Builder) Within(ctx context.Context) *Builder {
	b.Watch.Ctx = ctx
	return b
}

// Series starts a series; the chunks added next belong to it.
func (b *Builder) Series(l labels.Labels) {
	b.sel.series = append(b.sel.series, l)
	b.sel.first = append(b.sel.first, uint32(len(b.Chunks)))
	b.Labels = l
}

// Finish sorts the series, joins series that came more than once, puts their
// chunks in time order without overlaps and returns the selection. The builder
// must not be used afterwards.
func (b *Builder) Finish() (*Selection, error) {
	defer b.Watch.Leave()
	s := b.sel
	s.first, s.chunks, s.slabs = append(s.first, uint32(len(b.Chunks))), b.Chunks, b.Slabs()
	if !s.normal() {
		if err := s.normalise(b.Watch.Ctx); err != nil {
			return nil, err
		}
	}
	s.own = true
	return s.finish(), nil
}

// Assemble makes a selection of its parts: the series in label order, the chunks
// of all, and the slabs that they lie in. chunks[first[i]:first[i+1]] are those
// of series i. It checks that they make a selection, so that they may come from
// outside the program, but does not look into chunks.
func Assemble(series []labels.Labels, first []uint32, chunks []Chunk, slabs slab.Slabs) (*Selection, error) {
	if len(first) != len(series)+1 || first[0] != 0 || int(first[len(series)]) != len(chunks) {
		return nil, errors.New("its series and chunks do not fit together")
	}
	for i := range series {
		if first[i] > first[i+1] {
			return nil, errors.New("its series and chunks do not fit together")
		}
	}
	for _, c := range chunks {
		switch {
		case !chunkenc.IsValidEncoding(c.Enc):
			return nil, fmt.Errorf("unknown chunk encoding %d", c.Enc)
		case c.MinT > c.MaxT:
			return nil, errors.New("a chunk begins after its end")
		case !slabs.Has(c):
			return nil, errors.New("a chunk lies outside of the slabs")
		case int(c.Len) < encoding.HeaderBytes(c.Enc):
			return nil, errors.New("a chunk is shorter than its header")
		}
	}
	s := Selection{series: series, first: first, chunks: chunks, slabs: slabs}
	if !s.normal() {
		return nil, errors.New("its series or chunks are not in order")
	}
	return s.finish(), nil
}
