package selection

import (
	"context"
	"math/bits"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection/samples"
)

// extend returns the union of base and tail, selections of one source, with the chunks
// of tail behind the table of base, as what is kept until kept (ms); or nil where that
// does not suit them.
func extend(ctx context.Context, base, tail *Selection, kept int64) (*Selection, error) {
	// More than half as much again had better be one table.
	if tail.memos != nil || 2*tail.NumChunks() > base.NumChunks() {
		return nil, nil
	}
	base, tail = base.flat(), tail.flat()
	slabs, renumber := shareSlabs([]*Selection{base, tail})
	e := extension{
		out: Selection{
			series: base.series, first: base.first, chunks: base.chunks, slabs: slabs, memos: base.memos, kept: kept,
			encodings: base.encodings | tail.encodings, samples: base.samples + tail.samples, data: base.data + tail.data,
		},
		merged: samples.NewWriter(ctx, len(slabs), 0),
	}
	at := e.addSeries(base, tail.series)
	if len(e.out.series) == len(base.series) {
		e.out.notes = base.notes // of which those on the series are good
	}
	e.first = make([]uint32, 0, len(e.out.series)+1)
	e.chunks = make([]Chunk, 0, len(tail.chunks))
	for j, i := range at {
		if err := e.merged.Watch.Err(); err != nil {
			return nil, err
		}
		for len(e.first) <= i {
			e.first = append(e.first, uint32(len(e.chunks)))
		}
		start := len(e.chunks)
		e.chunks = append(e.chunks, tail.Chunks(j)...)
		if number := renumber[1]; number != nil {
			for k := start; k < len(e.chunks); k++ {
				e.chunks[k].Slab = number[e.chunks[k].Slab]
			}
		}
		if table := e.out.chunks[e.out.first[i]:e.out.first[i+1]]; len(table) > 0 && table[len(table)-1].MaxT >= e.chunks[start].MinT {
			if bits.OnesCount32(e.out.encodings) > 1 {
				return nil, nil // which are left is only known when all chunks are looked at
			}
			if err := e.removeOverlaps(i, table, start); err != nil {
				return nil, err
			}
		}
	}
	for len(e.first) <= len(e.out.series) {
		e.first = append(e.first, uint32(len(e.chunks)))
	}
	out, further := e.out, e.behind
	out.slabs = append(out.slabs, e.merged.Slabs()...)
	out.behind = &further
	return out.measure(), nil
}

// extension is a selection that others are put behind.
type extension struct {
	out Selection
	behind
	merged   *samples.Writer
	ownMemos bool // whether those of out may be changed
}

// addSeries adds to out, which has those of base, the series that base lacks, and
// returns the number in out of each of the given ones. Both are in label order.
func (e *extension) addSeries(base *Selection, series []labels.Labels) []int {
	at := make([]int, len(series))
	var lacking []int // of series
	i := 0
	for j, l := range series {
		for i < len(base.series) && !labels.Equal(base.series[i], l) { // most are the very same
			if labels.Compare(base.series[i], l) > 0 {
				break
			}
			i++
		}
		at[j] = i + len(lacking)
		if i < len(base.series) && labels.Equal(base.series[i], l) {
			i++
		} else {
			lacking = append(lacking, j)
		}
	}
	if len(lacking) == 0 {
		return at
	}
	n := len(base.series) + len(lacking)
	out := &e.out
	out.series = make([]labels.Labels, 0, n)
	out.first = make([]uint32, 0, n+1)
	if base.memos != nil {
		out.memos, e.ownMemos = make([]*Memo, 0, n), true
	}
	from := 0
	upTo := func(to int) {
		out.series = append(out.series, base.series[from:to]...)
		out.first = append(out.first, base.first[from:to]...)
		if base.memos != nil {
			out.memos = append(out.memos, base.memos[from:to]...)
		}
		from = to
	}
	for k, j := range lacking {
		upTo(at[j] - k)
		out.series = append(out.series, series[j])
		out.first = append(out.first, base.first[from])
		if base.memos != nil {
			out.memos = append(out.memos, nil)
		}
	}
	upTo(len(base.series))
	out.first = append(out.first, base.first[from])
	return at
}

// removeOverlaps removes the overlaps of what series i has in the table and what was put behind
// it, from start on. Where they begin, the table ends for the series.
func (e *extension) removeOverlaps(i int, table []Chunk, start int) error {
	out := &e.out
	k := sort.Search(len(table), func(k int) bool { return table[k].MaxT >= e.chunks[start].MinT })
	if e.ends == nil {
		e.ends = slices.Clone(out.first[1:])
	}
	e.ends[i] = out.first[i] + uint32(k)
	e.hidden += len(table) - k
	cs := slices.Concat(table[k:], e.chunks[start:])
	out.count(cs, -1)
	cs, err := e.merged.Separate(out.series[i], out.slabs, cs)
	if err != nil {
		return err
	}
	out.count(cs, 1)
	if out.memos != nil && e.changesKept(cs) {
		if !e.ownMemos {
			out.memos, e.ownMemos = slices.Clone(out.memos), true
		}
		out.memos[i] = nil // nobody will see these very chunks again
	}
	e.chunks = append(e.chunks[:start], cs...)
	return nil
}

// changesKept reports whether some of cs was made anew of what is kept.
func (e *extension) changesKept(cs []Chunk) bool {
	return slices.ContainsFunc(cs, func(c Chunk) bool { return int(c.Slab) >= len(e.out.slabs) && c.MinT < e.out.kept })
}

// count adds chunks to the sums, or takes them off with a sign of -1.
func (s *Selection) count(cs []Chunk, sign int64) {
	for i := range cs {
		s.samples += sign * int64(cs[i].Samples)
		s.data += sign * int64(cs[i].Len)
	}
}
