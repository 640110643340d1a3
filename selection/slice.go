package selection

import (
	"sort"

	"github.com/prometheus/prometheus/model/labels"

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

// Filter returns the series of s that keep says true of. They share their slabs
// with s, but no memos. keep is asked once for each series, in order.
func (s *Selection) Filter(keep func(labels.Labels) bool) *Selection {
	s = s.flat()
	out := &Selection{slabs: s.slabs, discard: s.discard}
	var which []int
	n := 0
	for i, l := range s.series {
		if keep(l) {
			which = append(which, i)
			n += len(s.Chunks(i))
		}
	}
	out.series = make([]labels.Labels, 0, len(which))
	out.first = make([]uint32, 0, len(which)+1)
	out.chunks = make([]Chunk, 0, n)
	for _, i := range which {
		out.series = append(out.series, s.series[i])
		out.first = append(out.first, uint32(len(out.chunks)))
		out.chunks = append(out.chunks, s.Chunks(i)...)
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.dropSlabs()
	return out.finish()
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
