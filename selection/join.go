package selection

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Join returns the union of parts, selections of one source: a series in several
// of them appears once, with its chunks in time order. Chunks that appear more
// than once, as they do in neighbouring time ranges, are kept once; no chunk bytes
// are copied except where different chunks overlap, which are merged into new ones.
func Join(parts ...*Selection) (*Selection, error) {
	parts = present(parts)
	kept := int64(0)
	for _, p := range parts {
		kept = max(kept, p.kept)
	}
	return union(parts, kept, func(out *Selection, l labels.Labels, cs []Chunk, _ []int, merged *Builder) ([]Chunk, error) {
		return out.separate(l, cs, merged)
	})
}

// present returns the parts that hold something.
func present(parts []*Selection) []*Selection {
	return slices.DeleteFunc(slices.Clone(parts), func(p *Selection) bool { return p == nil || p.NumSeries() == 0 })
}

// settle removes the overlaps of cs, the chunks of series l of out. Those of the
// first part that has the series end before ends[0], of the second before ends[1],
// and so on. What it encodes anew goes into merged.
type settle func(out *Selection, l labels.Labels, cs []Chunk, ends []int, merged *Builder) ([]Chunk, error)

// union returns the union of parts, none of them empty, as what is kept until kept
// (ms); where chunks of a series are not in time order, or overlap, it has them
// settled.
func union(parts []*Selection, kept int64, settle settle) (*Selection, error) {
	switch len(parts) {
	case 0:
		return Empty(), nil
	case 1:
		return parts[0], nil
	}
	out := Selection{kept: kept}
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

	series, chunks := 0, 0
	for _, part := range parts {
		series = max(series, len(part.series))
		chunks += len(part.chunks)
	}
	out.series = make([]labels.Labels, 0, series)
	out.first = make([]uint32, 0, series+1)
	out.chunks = make([]Chunk, 0, chunks)

	// A k-way merge by labels; k is the handful of parts there are.
	merged := NewBuilder(0) // its slabs come behind those there are
	next := make([]int, len(parts))
	ends := make([]int, 0, len(parts))
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
		start := len(out.chunks)
		out.series = append(out.series, least)
		out.first = append(out.first, uint32(start))
		ends = ends[:0]
		var memo *Memo
		for p, part := range parts {
			i := next[p]
			if i >= len(part.series) || !labels.Equal(part.series[i], least) {
				continue
			}
			next[p]++
			memo = cmp.Or(memo, part.Memo(i))
			for _, c := range part.Chunks(i) {
				c.Slab = renumber[p][c.Slab]
				out.chunks = append(out.chunks, c)
			}
			ends = append(ends, len(out.chunks)-start)
		}
		if !disjoint(out.chunks[start:]) {
			cs, err := settle(&out, least, out.chunks[start:], ends, merged)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(cs, func(c Chunk) bool { return int(c.Slab) >= len(out.slabs) && c.MinT < kept }) {
				memo = nil // nobody will see these very chunks again
			}
			out.chunks = append(out.chunks[:start], cs...)
		}
		out.keepMemo(memo)
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.slabs = append(out.slabs, merged.sel.slabs...)
	return out.finish(), nil
}

// disjoint reports whether chunks are in time order and none overlaps another.
func disjoint(cs []Chunk) bool {
	for k := 1; k < len(cs); k++ {
		if cs[k].MinT <= cs[k-1].MaxT {
			return false
		}
	}
	return true
}

// normal reports whether series are sorted and unique, and chunks sorted and
// disjoint.
func (s *Selection) normal() bool {
	for i := range s.series {
		if i > 0 && labels.Compare(s.series[i-1], s.series[i]) >= 0 {
			return false
		}
		if cs := s.Chunks(i); len(cs) == 0 || !disjoint(cs) {
			return false
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
	merged := NewBuilder(0) // its slabs come behind those there are
	for k := 0; k < len(order); {
		l := s.series[order[k]]
		start := len(out.chunks)
		for ; k < len(order) && labels.Equal(s.series[order[k]], l); k++ {
			out.chunks = append(out.chunks, s.Chunks(order[k])...)
		}
		cs, err := out.separate(l, out.chunks[start:], merged)
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
	out.slabs = slices.Concat(out.slabs, merged.sel.slabs)
	*s = out
	return nil
}

// separate sorts the chunks of one series and removes overlaps: a chunk that is
// the same as, or an earlier state of, another is dropped; others that overlap
// are decoded, merged sample by sample and encoded again into merged.
func (s *Selection) separate(l labels.Labels, cs []Chunk, merged *Builder) ([]Chunk, error) {
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
	its := make([]chunkenc.Iterator, 0, len(run))
	for _, c := range run {
		its = append(its, s.checked(l, c, math.MinInt64, math.MaxInt64))
	}
	out, err := s.encodeInto(merged, l, storage.ChainSampleIteratorFromIterators(nil, its))
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
	if err := merged.encode(&inOrder{Iterator: it, series: l}); err != nil {
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
