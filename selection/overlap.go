package selection

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// separate sorts the chunks of one series and removes overlaps: a chunk that is
// the same as, or an earlier state of, another is dropped; others that overlap
// are decoded, merged sample by sample and encoded again into merged, whose context ends
// all of it.
func (s *Selection) separate(l labels.Labels, cs []Chunk, merged *Builder) ([]Chunk, error) {
	slices.SortStableFunc(cs, comparing(&merged.watch, func(a, b Chunk) int {
		return cmp.Or(cmp.Compare(a.MinT, b.MinT), cmp.Compare(a.MaxT, b.MaxT))
	}))
	if err := merged.watch.now(); err != nil {
		return nil, err
	}
	kept := make([]Chunk, 0, len(cs))
	overlap := false
	for _, c := range cs {
		if err := merged.watch.err(); err != nil {
			return nil, err
		}
		if n := len(kept); n > 0 && c.MinT <= kept[n-1].MaxT {
			if s.grewInto(kept[n-1], c) {
				kept[n-1] = c
				continue
			}
			overlap = true
		}
		kept = append(kept, c)
	}
	if !overlap {
		return kept, nil
	}
	return s.mergeOverlaps(l, kept, merged)
}

// grewInto reports whether b holds all of a: equal bytes, or the same bit
// stream written on. Of the last byte of a only the leading bits may be in use,
// so it is compared by decoding nothing: the samples before it decide.
func (s *Selection) grewInto(a, b Chunk) bool {
	if a.Enc != b.Enc || a.MinT != b.MinT || a.Samples > b.Samples || a.Len > b.Len {
		return false
	}
	x, y := s.Bytes(a), s.Bytes(b)
	if bytes.Equal(x, y) {
		return true
	}
	if a.Enc != chunkenc.EncXOR || a.Samples == b.Samples || len(x) < 4 {
		return false
	}
	last := len(x) - 1
	return bytes.Equal(x[2:last], y[2:last]) && x[last]&^y[last] == 0
}

// mergeOverlaps merges runs of overlapping chunks of one series.
func (s *Selection) mergeOverlaps(l labels.Labels, cs []Chunk, merged *Builder) ([]Chunk, error) {
	var out []Chunk
	for i := 0; i < len(cs); {
		if err := merged.watch.err(); err != nil {
			return nil, err
		}
		j, end := i+1, cs[i].MaxT
		for j < len(cs) && cs[j].MinT <= end {
			end = max(end, cs[j].MaxT)
			j++
		}
		if j == i+1 {
			out = append(out, cs[i])
			i = j
			continue
		}
		union, err := s.mergeRun(l, cs[i:j], merged)
		if err != nil {
			return nil, err
		}
		out = append(out, union...)
		i = j
	}
	return out, nil
}

// mergeRun merges chunks that overlap into new ones, which it adds to merged.
// Of samples with equal timestamps one is kept, chosen as Prometheus does when
// it merges overlapping blocks.
func (s *Selection) mergeRun(l labels.Labels, run []Chunk, merged *Builder) ([]Chunk, error) {
	out, err := s.encodeInto(merged, l, newChain(s, l, run, &merged.watch))
	if err != nil {
		return nil, fmt.Errorf("merging %d overlapping chunks: %w", len(run), err)
	}
	return out, nil
}

// encodeInto encodes samples of series l into chunks of merged, and returns them as
// chunks of s, whose slabs those of merged will come behind.
func (s *Selection) encodeInto(merged *Builder, l labels.Labels, it chunkenc.Iterator) ([]Chunk, error) {
	merged.Series(l)
	start := len(merged.sel.chunks)
	if err := merged.Samples(it); err != nil {
		return nil, err
	}
	out := slices.Clone(merged.sel.chunks[start:])
	for i := range out {
		out[i].Slab += uint32(len(s.slabs))
	}
	return out, nil
}

// checked returns an iterator over the samples of one chunk from mint to maxt
// (ms, both included) that checks what it decodes.
func (s *Selection) checked(l labels.Labels, c Chunk, mint, maxt int64) chunkenc.Iterator {
	return (&series{sel: s, labels: l, chunks: []Chunk{c}, mint: mint, maxt: maxt}).Iterator(nil)
}
