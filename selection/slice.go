package selection

import (
	"fmt"
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

	out := &Selection{slabs: s.slabs, discard: s.discard}
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

	out := &Selection{slabs: s.slabs[:len(s.slabs):len(s.slabs)], discard: s.discard}
	cut := NewBuilder(0)
	for i, l := range s.series {
		start := len(out.chunks)
		for _, c := range s.Chunks(i) {
			switch {
			case c.MinT > maxt:
			case c.MaxT <= maxt:
				out.chunks = append(out.chunks, c)
			default:
				head, last, err := encodeUntil(c.Enc, s.Bytes(c), maxt)
				if err != nil {
					return nil, &CorruptError{Series: l, MinT: c.MinT, Err: err}
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
			out.first = append(out.first, uint32(start))
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.slabs = append(out.slabs, cut.sel.slabs...)
	out.dropSlabs()
	return out.finish(), nil
}

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

// encodeUntil returns a chunk of the samples of data, a chunk in encoding e, up
// to maxt (ms), and the time of the last of them.
func encodeUntil(e chunkenc.Encoding, data []byte, maxt int64) (head chunkenc.Chunk, last int64, err error) {
	whole, err := chunkenc.FromData(e, data[:len(data):len(data)])
	if err != nil {
		return nil, 0, err
	}
	if head, err = chunkenc.NewEmptyChunk(e); err != nil {
		return nil, 0, err
	}
	app, err := head.Appender()
	if err != nil {
		return nil, 0, err
	}
	it := whole.Iterator(nil)
	for v := it.Next(); v != chunkenc.ValNone && it.AtT() <= maxt; v = it.Next() {
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
		case chunkenc.ValFloatHistogram:
			t, h := it.AtFloatHistogram(nil)
			last = t
			_, _, app, err = app.AppendFloatHistogram(nil, st, t, h, true)
		default:
			err = fmt.Errorf("unknown sample type %v", v)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return head, last, it.Err()
}
