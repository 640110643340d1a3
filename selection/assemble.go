package selection

import (
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Room is the number of bytes that a chunk of n bytes takes in a slab.
func Room(n uint32) int { return (int(n) + Align - 1) / Align * Align }

// MappedSlabs returns slabs over parts of a mapped file, each of which has a
// capacity of Pad bytes more. owner is what the mapping must outlive: it is
// reachable as long as any of the slabs is.
func MappedSlabs(parts [][]byte, owner any) []*Slab {
	slabs := make([]*Slab, len(parts))
	for i, b := range parts {
		slabs[i] = &Slab{b: b, mapped: owner}
	}
	return slabs
}

// Assemble makes a selection of its parts: the series in label order, the chunks
// of all, and the slabs that they lie in. chunks[first[i]:first[i+1]] are those
// of series i. It checks that they make a selection, so that they may come from
// outside the program, but does not look into chunks.
func Assemble(series []labels.Labels, first []uint32, chunks []Chunk, slabs []*Slab) (*Selection, error) {
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
		case int(c.Slab) >= len(slabs) || c.Off%Align != 0 || int(c.Off)+Room(c.Len) > len(slabs[c.Slab].b),
			cap(slabs[c.Slab].b)-len(slabs[c.Slab].b) < Pad:
			return nil, errors.New("a chunk lies outside of the slabs")
		case int(c.Len) < headerBytes(c.Enc):
			return nil, errors.New("a chunk is shorter than its header")
		}
	}
	s := Selection{series: series, first: first, chunks: chunks, slabs: slabs}
	if !s.normal() {
		return nil, errors.New("its series or chunks are not in order")
	}
	return s.finish(), nil
}
