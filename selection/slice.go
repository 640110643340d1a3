package selection

import (
	"slices"
	"sort"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Slice returns the part of s whose chunks overlap mint to maxt (ms, both
// included). Chunks stay whole and share their slabs with s; series without a
// chunk in range are left out, and so are slabs none of whose chunks is left.
// The result is a Selection of its own even when nothing is left out, and calls
// what s calls on Discard.
func (s *Selection) Slice(mint, maxt int64) *Selection {
	all := true
	for i := 0; i < s.NumSeries() && all; i++ {
		cs := s.Chunks(i)
		all = cs[0].MaxT >= mint && cs[len(cs)-1].MinT <= maxt
	}
	if all {
		out := *s
		return &out
	}

	out := &Selection{slabs: s.slabs, discard: s.discard, kept: s.kept}
	n := 0
	for i := range s.series {
		lo, hi := inRange(s.Chunks(i), mint, maxt)
		n += hi - lo
	}
	out.chunks = make([]Chunk, 0, n)
	for i, l := range s.series {
		cs := s.Chunks(i)
		if lo, hi := inRange(cs, mint, maxt); lo < hi {
			out.series = append(out.series, l)
			out.keepMemo(s.Memo(i))
			out.first = append(out.first, uint32(len(out.chunks)))
			out.chunks = append(out.chunks, cs[lo:hi]...)
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.dropSlabs()
	return out.finish()
}

// CutAfter returns s without the samples after maxt (ms). Chunks that end by
// then share their slabs with s; those that reach beyond are encoded again up
// to maxt, in the same encoding. The result is a Selection of its own and calls
// what s calls on Discard.
func (s *Selection) CutAfter(maxt int64) (*Selection, error) {
	whole := true
	for i := 0; i < s.NumSeries() && whole; i++ {
		cs := s.Chunks(i)
		whole = cs[len(cs)-1].MaxT <= maxt
	}
	if whole {
		out := *s
		return &out, nil
	}

	out := &Selection{slabs: s.slabs[:len(s.slabs):len(s.slabs)], discard: s.discard, kept: s.kept}
	cut := NewBuilder(0)
	for i, l := range s.series {
		start := len(out.chunks)
		for _, c := range s.Chunks(i) {
			switch {
			case c.MinT > maxt:
			case c.MaxT <= maxt:
				out.chunks = append(out.chunks, c)
			default:
				head, last, err := encodeAs(c.Enc, s.checked(l, c, maxt))
				if err != nil {
					return nil, err
				}
				if head.NumSamples() == 0 {
					continue
				}
				cut.Series(l)
				if err := cut.Chunk(c.Enc, c.MinT, last, head.Bytes()); err != nil {
					return nil, err
				}
				c = cut.sel.chunks[len(cut.sel.chunks)-1]
				c.Slab += uint32(len(s.slabs))
				out.chunks = append(out.chunks, c)
			}
		}
		if len(out.chunks) > start {
			out.series = append(out.series, l)
			out.keepMemo(s.Memo(i))
			out.first = append(out.first, uint32(start))
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.slabs = append(out.slabs, cut.sel.slabs...)
	out.dropSlabs()
	return out.finish(), nil
}

// Compact returns s itself if its chunks take at least half of its slabs, and
// otherwise a selection of its own with the chunks copied into slabs that fit.
// The copy calls what s calls on Discard.
func (s *Selection) Compact() *Selection {
	var used, room int64
	for i := range s.chunks {
		used += int64(s.chunks[i].room())
	}
	for _, l := range s.slabs {
		room += int64(cap(l.b))
	}
	if 2*used >= room {
		return s
	}
	out := *s
	out.chunks = slices.Clone(s.chunks)
	out.slabs = nil
	for start := 0; start < len(out.chunks); {
		size, end := 0, start
		for ; end < len(out.chunks) && (end == start || size+out.chunks[end].room() <= maxSlab); end++ {
			size += out.chunks[end].room()
		}
		l := newSlab(0, size)
		b := l.b
		for k := start; k < end; k++ {
			c := &out.chunks[k]
			data := s.Bytes(*c)
			c.Slab, c.Off = uint32(len(out.slabs)), uint32(len(b))
			b = append(b, data...)
			b = b[:int(c.Off)+c.room()]
		}
		l.b = b
		out.slabs = append(out.slabs, l)
		start = end
	}
	return out.finish()
}

// room is the number of bytes that a chunk takes in a slab.
func (c Chunk) room() int { return (int(c.Len) + Pad + Align - 1) / Align * Align }

// inRange returns the bounds of the chunks, sorted and disjoint, that overlap
// mint to maxt (ms, both included).
func inRange(cs []Chunk, mint, maxt int64) (lo, hi int) {
	lo = sort.Search(len(cs), func(k int) bool { return cs[k].MaxT >= mint })
	hi = sort.Search(len(cs), func(k int) bool { return cs[k].MinT > maxt })
	return lo, max(lo, hi)
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
	slabs := make([]*Slab, 0, n)
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

// encodeAs returns one chunk of all samples of it, which come from a chunk in
// encoding e, in that encoding, and the time of the last of them (ms).
func encodeAs(e chunkenc.Encoding, it chunkenc.Iterator) (c chunkenc.Chunk, last int64, err error) {
	if c, err = chunkenc.NewEmptyChunk(e); err != nil {
		return nil, 0, err
	}
	app, err := c.Appender()
	if err != nil {
		return nil, 0, err
	}
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		st := it.AtST()
		switch v {
		case chunkenc.ValFloat:
			var f float64
			last, f = it.At()
			app.Append(st, last, f)
		case chunkenc.ValHistogram:
			t, h := it.AtHistogram(nil)
			last = t
			_, _, app, err = app.AppendHistogram(nil, st, t, h, true)
		default:
			t, h := it.AtFloatHistogram(nil)
			last = t
			_, _, app, err = app.AppendFloatHistogram(nil, st, t, h, true)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return c, last, it.Err()
}
