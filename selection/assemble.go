package selection

import (
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/slab"
)

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
