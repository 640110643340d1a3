package selection

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// Join returns the union of parts: a series in several of them appears once,
// with its chunks in time order. Chunks that appear more than once, as they do
// in neighbouring time ranges, are kept once; no chunk bytes are copied except
// where different chunks overlap, which are merged into new ones.
func Join(parts ...*Selection) (*Selection, error) {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p *Selection) bool { return p == nil || p.NumSeries() == 0 })
	switch len(parts) {
	case 0:
		return Empty(), nil
	case 1:
		return parts[0], nil
	}
	var out Selection
	slabIndex := map[*Slab]uint32{}
	renumber := make([][]uint32, len(parts))
	for p, part := range parts {
		for _, s := range part.slabs {
			k, ok := slabIndex[s]
			if !ok {
				k = uint32(len(out.slabs))
				slabIndex[s] = k
				out.slabs = append(out.slabs, s)
			}
			renumber[p] = append(renumber[p], k)
		}
	}

	// A k-way merge by labels; k is the handful of ranges a query touches.
	next := make([]int, len(parts))
	for {
		var least labels.Labels
		found := false
		for p, part := range parts {
			if next[p] < len(part.series) {
				if l := part.series[next[p]]; !found || labels.Compare(l, least) < 0 {
					least, found = l, true
				}
			}
		}
		if !found {
			break
		}
		out.series = append(out.series, least)
		out.first = append(out.first, uint32(len(out.chunks)))
		for p, part := range parts {
			i := next[p]
			if i >= len(part.series) || !labels.Equal(part.series[i], least) {
				continue
			}
			next[p]++
			for _, c := range part.Chunks(i) {
				c.Slab = renumber[p][c.Slab]
				out.chunks = append(out.chunks, c)
			}
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	if !out.normal() {
		if err := out.normalise(); err != nil {
			return nil, err
		}
	}
	return out.finish(), nil
}

// normal reports whether series are sorted and unique, and chunks sorted and
// disjoint.
func (s *Selection) normal() bool {
	for i := range s.series {
		if i > 0 && labels.Compare(s.series[i-1], s.series[i]) >= 0 {
			return false
		}
		cs := s.Chunks(i)
		if len(cs) == 0 {
			return false
		}
		for k := 1; k < len(cs); k++ {
			if cs[k].MinT <= cs[k-1].MaxT {
				return false
			}
		}
	}
	return true
}

// normalise makes s normal. Series without a chunk are dropped.
func (s *Selection) normalise() error {
	order := make([]int, len(s.series))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return labels.Compare(s.series[a], s.series[b]) })

	out := Selection{slabs: s.slabs, chunks: make([]Chunk, 0, len(s.chunks))}
	for k := 0; k < len(order); {
		l := s.series[order[k]]
		start := len(out.chunks)
		for ; k < len(order) && labels.Equal(s.series[order[k]], l); k++ {
			out.chunks = append(out.chunks, s.Chunks(order[k])...)
		}
		cs, err := out.separate(l, out.chunks[start:])
		if err != nil {
			return err
		}
		out.chunks = append(out.chunks[:start], cs...)
		if len(cs) > 0 {
			out.series = append(out.series, l)
			out.first = append(out.first, uint32(start))
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	*s = out
	return nil
}

// separate sorts the chunks of one series and removes overlaps: a chunk that is
// the same as, or an earlier state of, another is dropped; others that overlap
// are decoded, merged sample by sample and encoded again.
func (s *Selection) separate(l labels.Labels, cs []Chunk) ([]Chunk, error) {
	slices.SortStableFunc(cs, func(a, b Chunk) int {
		return cmp.Or(cmp.Compare(a.MinT, b.MinT), cmp.Compare(a.MaxT, b.MaxT))
	})
	kept := make([]Chunk, 0, len(cs))
	overlap := false
	for _, c := range cs {
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
	return s.mergeOverlaps(l, kept)
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
func (s *Selection) mergeOverlaps(l labels.Labels, cs []Chunk) ([]Chunk, error) {
	var out []Chunk
	for i := 0; i < len(cs); {
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
		merged, err := s.mergeRun(l, cs[i:j])
		if err != nil {
			return nil, err
		}
		out = append(out, merged...)
		i = j
	}
	return out, nil
}

// mergeRun merges chunks that overlap into new ones in a slab of their own. Of
// samples with equal timestamps the one of the first chunk wins, as it does
// when Prometheus merges overlapping blocks.
func (s *Selection) mergeRun(l labels.Labels, run []Chunk) ([]Chunk, error) {
	series := make([]storage.ChunkSeries, 0, len(run))
	for _, c := range run {
		chk, err := chunkenc.FromData(c.Enc, s.Bytes(c))
		if err != nil {
			return nil, &CorruptError{Series: l, MinT: c.MinT, Err: err}
		}
		series = append(series, &storage.ChunkSeriesEntry{Lset: l, ChunkIteratorFn: func(chunks.Iterator) chunks.Iterator {
			return storage.NewListChunkSeriesIterator(chunks.Meta{Chunk: chk, MinTime: c.MinT, MaxTime: c.MaxT})
		}})
	}
	b := NewBuilder(0)
	b.Series(l)
	it := storage.NewCompactingChunkSeriesMerger(storage.ChainedSeriesMerge)(series...).Iterator(nil)
	for it.Next() {
		m := it.At()
		if err := b.Chunk(m.Chunk.Encoding(), m.MinTime, m.MaxTime, m.Chunk.Bytes()); err != nil {
			return nil, err
		}
	}
	if err := it.Err(); err != nil {
		return nil, &CorruptError{Series: l, MinT: run[0].MinT, Err: fmt.Errorf("merging %d overlapping chunks: %w", len(run), err)}
	}
	base := uint32(len(s.slabs))
	s.slabs = append(s.slabs, b.sel.slabs...)
	for i := range b.sel.chunks {
		b.sel.chunks[i].Slab += base
	}
	return b.sel.chunks, nil
}
