package selection

import (
	"context"
	"slices"
	"sort"
	"unsafe"
	"weak"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection/samples"
	"github.com/promwarp/promwarp/selection/slab"
)

// Slice returns the part of s whose chunks overlap mint to maxt (ms, both
// included). Chunks stay whole and share their slabs with s; series without a
// chunk in range are left out, and so are slabs none of whose chunks is left.
// The result is a Selection of its own even when nothing is left out, and calls
// what s calls on Discard.
func (s *Selection) Slice(mint, maxt int64) *Selection {
	all := true
	for i := 0; i < s.NumSeries() && all; i++ {
		first, last := s.ends(i)
		all = first.MaxT >= mint && last.MinT <= maxt
	}
	if all {
		out := *s
		return &out
	}

	s = s.flat()
	in := func(i int) []Chunk { return overlapping(s.Chunks(i), mint, maxt) }
	n := 0
	for i := range s.series {
		n += len(in(i))
	}
	out := &Selection{KeptUntil: s.KeptUntil, chunks: make([]Chunk, 0, n)}
	return out.fill(s, in, s.Memo)
}

// Filter returns the series of s that keep says true of. They share their slabs
// with s, but no memos. keep is asked once for each series, in order.
func (s *Selection) Filter(keep func(labels.Labels) bool) *Selection {
	s = s.flat()
	in := func(i int) []Chunk {
		if keep(s.series[i]) {
			return s.Chunks(i)
		}
		return nil
	}
	return new(Selection).fill(s, in, func(int) *Memo { return nil })
}

// Pick returns some series of s, by their numbers in rising order, with all their chunks. They share
// their slabs with s, but neither memos nor notes. It calls what s calls on Discard.
func (s *Selection) Pick(series []int32) *Selection {
	out := &Selection{
		slabs: s.slabs, OnDiscard: s.OnDiscard,
		series: make([]labels.Labels, 0, len(series)), first: make([]uint32, 1, len(series)+1),
		chunks: make([]Chunk, 0, s.NumChunks()*len(series)/max(s.NumSeries(), 1)),
	}
	for _, i := range series {
		out.series = append(out.series, s.series[i])
		out.chunks = append(out.chunks, s.Chunks(int(i))...)
		out.first = append(out.first, uint32(len(out.chunks)))
	}
	out.dropSlabs()
	return out.finish()
}

// fill makes s of those chunks of another selection that in says of each series, and finishes it.
func (s *Selection) fill(from *Selection, in func(i int) []Chunk, memo func(i int) *Memo) *Selection {
	s.slabs, s.OnDiscard = from.slabs, from.OnDiscard
	for i, l := range from.series {
		if cs := in(i); len(cs) > 0 {
			s.series = append(s.series, l)
			s.keepMemo(memo(i))
			s.first = append(s.first, uint32(len(s.chunks)))
			s.chunks = append(s.chunks, cs...)
		}
	}
	s.first = append(s.first, uint32(len(s.chunks)))
	s.dropSlabs()
	return s.finish()
}

// dropSlabs lets go of the slabs that no chunk is in.
func (s *Selection) dropSlabs() {
	used := make([]bool, len(s.slabs))
	n := 0
	for i := range s.chunks {
		if k := s.chunks[i].Slab; !used[k] {
			used[k] = true
			n++
		}
	}
	if n == len(s.slabs) {
		return
	}
	number := make([]uint32, len(s.slabs))
	slabs := make(slab.Slabs, 0, n)
	for k, u := range used {
		if u {
			number[k] = uint32(len(slabs))
			slabs = append(slabs, s.slabs[k])
		}
	}
	for i := range s.chunks {
		s.chunks[i].Slab = number[s.chunks[i].Slab]
	}
	s.slabs = slabs
}

// Overlapping returns the chunks of series i that overlap mint to maxt (ms, both
// included). The slice must not be changed.
func (s *Selection) Overlapping(i int, mint, maxt int64) []Chunk {
	return s.OverlappingIn(new([]Chunk), i, mint, maxt)
}

// OverlappingIn is Overlapping for who asks for one series after another: the slice may be in
// memory, which the next call writes to again.
func (s *Selection) OverlappingIn(memory *[]Chunk, i int, mint, maxt int64) []Chunk {
	cs := overlapping(s.inTable(i), mint, maxt)
	if s.behind == nil {
		return cs
	}
	return concat(memory, cs, overlapping(s.behind.of(i), mint, maxt))
}

// Table tells tables of chunks apart: selections with the same one have the very same chunks at the
// same places of it, whatever is behind it.
func (s *Selection) Table() weak.Pointer[Chunk] { return weak.Make(unsafe.SliceData(s.chunks)) }

// OverlappingApart is Overlapping without a copy: the chunks that are in the table, the place in it where
// they begin, and those behind it.
func (s *Selection) OverlappingApart(i int, mint, maxt int64) (at int, table, behind []Chunk) {
	table = overlapping(s.inTable(i), mint, maxt)
	if s.behind != nil {
		behind = overlapping(s.behind.of(i), mint, maxt)
	}
	if len(table) > 0 {
		first := uintptr(unsafe.Pointer(unsafe.SliceData(table))) - uintptr(unsafe.Pointer(unsafe.SliceData(s.chunks)))
		at = int(first / unsafe.Sizeof(Chunk{}))
	}
	return at, table, behind
}

// overlapping returns those of a series' chunks. Mostly these are all, or all but a few.
func overlapping(cs []Chunk, mint, maxt int64) []Chunk {
	if len(cs) > 0 && cs[0].MaxT < mint {
		cs = cs[sort.Search(len(cs), func(k int) bool { return cs[k].MaxT >= mint }):]
	}
	if n := len(cs); n > 0 && cs[n-1].MinT > maxt {
		cs = cs[:sort.Search(n, func(k int) bool { return cs[k].MinT > maxt })]
	}
	return cs
}

// countedSeries is of how many series SamplesAbout adds up the chunks.
const countedSeries = 8

// SamplesAbout is about how many samples the chunks that overlap mint to maxt (ms, both included)
// have: those of some series are added up.
func (s *Selection) SamplesAbout(mint, maxt int64) (n int64) {
	series := min(s.NumSeries(), countedSeries)
	for k := range series {
		for _, c := range s.Overlapping(k*s.NumSeries()/series, mint, maxt) {
			n += int64(c.Samples)
		}
	}
	return n * int64(s.NumSeries()) / int64(max(series, 1))
}

// Cut returns the samples of s from mint to maxt (ms, both included). Chunks
// within that range share their slabs with s; chunks that reach beyond are
// encoded again, in the same encoding. The result is a Selection of its own and
// calls what s calls on Discard. It fails with ctx's error soon after ctx has ended.
func (s *Selection) Cut(ctx context.Context, mint, maxt int64) (*Selection, error) {
	whole := true
	for i := 0; i < s.NumSeries() && whole; i++ {
		first, last := s.ends(i)
		whole = first.MinT >= mint && last.MaxT <= maxt
	}
	if whole {
		out := *s
		return &out, nil
	}

	out := &Selection{slabs: s.slabs[:len(s.slabs):len(s.slabs)], OnDiscard: s.OnDiscard, KeptUntil: s.KeptUntil}
	chunks := 0
	for i := range s.series {
		chunks += len(s.Overlapping(i, mint, maxt))
	}
	out.chunks = make([]Chunk, 0, chunks)
	cut := samples.NewWriter(ctx, len(s.slabs), 0)
	for i, l := range s.series {
		start := len(out.chunks)
		cut.Labels = l
		if err := cut.Watch.Err(); err != nil {
			return nil, err
		}
		for _, c := range s.Overlapping(i, mint, maxt) {
			if c.MinT < mint || c.MaxT > maxt {
				if err := cut.Watch.Err(); err != nil {
					return nil, err
				}
				cut.Chunks = nil
				if err := cut.OneChunk(c.Enc, s.Decode(i, []Chunk{c}, mint, maxt, nil)); err != nil {
					return nil, err
				}
				out.chunks = append(out.chunks, cut.Chunks...)
				continue
			}
			out.chunks = append(out.chunks, c)
		}
		if len(out.chunks) > start {
			out.series = append(out.series, l)
			out.keepMemo(s.Memo(i))
			out.first = append(out.first, uint32(start))
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.slabs = append(out.slabs, cut.Slabs()...)
	out.dropSlabs()
	return out.finish(), nil
}

// Compact returns a selection of the same chunks in which every slab is used to at
// least the given share: the chunks of others are copied into slabs that fit. It is s
// itself if its chunks are in one table and that would free little: less than a fifth of what
// slabs used to the share would leave empty. A copy calls what s calls on Discard.
func (s *Selection) Compact(share float64) *Selection {
	s = s.flat()
	used := make([]int64, len(s.slabs))
	for i := range s.chunks {
		used[s.chunks[i].Slab] += int64(slab.Footprint(s.chunks[i].Len))
	}
	loose, total, free := make([]bool, len(s.slabs)), int64(0), int64(0) // slabs whose chunks move
	for k, l := range s.slabs {
		total += l.SizeBytes()
		if loose[k] = float64(used[k]+slab.Pad) < share*float64(l.SizeBytes()); loose[k] {
			free += l.SizeBytes() - used[k] - slab.Pad
		}
	}
	if !slices.Contains(loose, true) || float64(free) < (1-share)/5*float64(total) {
		return s
	}
	out := *s
	out.slabs, out.chunks = slices.Clip(s.slabs), slices.Clone(s.chunks)
	var moved []*Chunk
	for i := range out.chunks {
		if c := &out.chunks[i]; loose[c.Slab] {
			moved = append(moved, c)
		}
	}
	for len(moved) > 0 {
		size, n := 0, 0
		for ; n < len(moved) && (n == 0 || size+slab.Footprint(moved[n].Len) <= slab.MaxBytes-slab.Pad); n++ {
			size += slab.Footprint(moved[n].Len)
		}
		l := slab.New(size + slab.Pad)
		for _, c := range moved[:n] {
			c.Off = l.Add(s.Bytes(*c))
			c.Slab = uint32(len(out.slabs))
		}
		out.slabs = append(out.slabs, l)
		moved = moved[n:]
	}
	out.dropSlabs()
	return out.finish()
}
