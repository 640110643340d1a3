package selection

import (
	"context"
	"math/bits"
	"slices"
	"sort"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection/samples"
)

// extend returns the union of base and tail, selections of one source of which tail has no memos, with the chunks
// of tail behind the table of base, as what is kept until kept (ms); or nil where that
// does not suit them.
func extend(ctx context.Context, base, tail *Selection, kept int64) (*Selection, error) {
	base, tail = base.flat(), tail.flat()
	slabs, renumber := shareSlabs([]*Selection{base, tail})
	e := extension{
		out: Selection{
			series: base.series, first: base.first, chunks: base.chunks, slabs: slabs, memos: slices.Clone(base.memos), KeptUntil: kept,
			encodings: base.encodings | tail.encodings, samples: base.samples + tail.samples, data: base.data + tail.data,
		},
		merged: samples.NewWriter(ctx, len(slabs), 0),
	}
	at := e.addSeries(base, tail.series)
	if len(e.out.series) == len(base.series) {
		e.out.Notes = base.Notes // of which those on the series are good
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
		for k := start; k < len(e.chunks); k++ {
			e.chunks[k].Slab = renumber[1][e.chunks[k].Slab]
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
	merged *samples.Writer
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
		out.memos = make([]*Memo, 0, n)
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
	if out.memos != nil && out.changesKept(cs) {
		out.memos[i] = nil // these very chunks will not be read again
	}
	e.chunks = append(e.chunks[:start], cs...)
	return nil
}

// changesKept reports whether some of cs, which lie in the slabs of s or behind them, was made anew of
// what is kept.
func (s *Selection) changesKept(cs []Chunk) bool {
	return slices.ContainsFunc(cs, func(c Chunk) bool { return int(c.Slab) >= len(s.slabs) && c.MinT < s.KeptUntil })
}

// count adds chunks to the sums, or takes them off with a sign of -1.
func (s *Selection) count(cs []Chunk, sign int64) {
	for i := range cs {
		s.samples += sign * int64(cs[i].Samples)
		s.data += sign * int64(cs[i].Len)
	}
}

// behind holds the chunks that come behind those in the table of a selection, series by
// series. So a selection with a few more chunks than a large one, the newest ones,
// shares its table instead of copying it, which every query would have to that asks for
// the newest samples.
type behind struct {
	first  []uint32 // chunks of series i are chunks[first[i]:first[i+1]]
	chunks []Chunk
	ends   []uint32 // where those of series i in the table end; nil where all of them count
	hidden int      // chunks in the table that do not count
}

// inTable returns the chunks of series i that are in the table.
func (s *Selection) inTable(i int) []Chunk {
	end := s.first[i+1]
	if s.behind != nil && s.behind.ends != nil {
		end = s.behind.ends[i]
	}
	return s.chunks[s.first[i]:end]
}

// of returns the chunks of series i that are behind the table.
func (b *behind) of(i int) []Chunk { return b.chunks[b.first[i]:b.first[i+1]] }

// concat returns the chunks of a and b, one of them itself if there are none in the
// other, and otherwise in memory.
func concat(memory *[]Chunk, a, b []Chunk) []Chunk {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	*memory = append(append(slices.Grow((*memory)[:0], len(a)+len(b)), a...), b...)
	return *memory
}

// flat returns s with all chunks in the table.
func (s *Selection) flat() *Selection {
	if s.behind == nil {
		return s
	}
	out := *s
	out.behind = nil
	out.first = make([]uint32, 0, len(s.series)+1)
	out.chunks = make([]Chunk, 0, s.NumChunks())
	for i := range s.series {
		out.first = append(out.first, uint32(len(out.chunks)))
		out.chunks = append(append(out.chunks, s.inTable(i)...), s.behind.of(i)...)
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.size += out.tableBytes() - s.tableBytes()
	return &out
}

// tableBytes is the memory that the tables of chunks take, in bytes.
func (s *Selection) tableBytes() int64 {
	const chunk = int64(unsafe.Sizeof(Chunk{}))
	n := int64(cap(s.chunks))*chunk + int64(cap(s.first))*4
	if b := s.behind; b != nil {
		n += int64(cap(b.chunks))*chunk + int64(cap(b.first)+cap(b.ends))*4
	}
	return n
}
