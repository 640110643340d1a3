package selection

import (
	"slices"

	"github.com/promwarp/promwarp/selection/slab"
)

// Compact returns a selection of the same chunks in which every slab is used to at
// least the given share: the chunks of others are copied into slabs that fit. It is s
// itself if nothing is to be copied and its chunks are in one table; a copy calls what s calls on
// Discard.
func (s *Selection) Compact(share float64) *Selection {
	s = s.flat()
	used := make([]int64, len(s.slabs))
	for i := range s.chunks {
		used[s.chunks[i].Slab] += int64(slab.Footprint(s.chunks[i].Len))
	}
	out := *s
	out.slabs = nil
	number := make([]int, len(s.slabs)) // of those that stay, in out; -1 for others
	for k, l := range s.slabs {
		number[k] = -1
		if float64(used[k]+slab.Pad) >= share*float64(cap(l.Bytes())) {
			number[k] = len(out.slabs)
			out.slabs = append(out.slabs, l)
		}
	}
	if len(out.slabs) == len(s.slabs) {
		return s
	}
	out.chunks = slices.Clone(s.chunks)
	var moved []int
	for i := range out.chunks {
		if k := number[out.chunks[i].Slab]; k >= 0 {
			out.chunks[i].Slab = uint32(k)
		} else {
			moved = append(moved, i)
		}
	}
	for len(moved) > 0 {
		size, n := 0, 0
		for ; n < len(moved) && (n == 0 || size+slab.Footprint(s.chunks[moved[n]].Len) <= slab.MaxBytes-slab.Pad); n++ {
			size += slab.Footprint(s.chunks[moved[n]].Len)
		}
		l := slab.New(size + slab.Pad)
		for _, i := range moved[:n] {
			c := &out.chunks[i]
			c.Slab, c.Off = uint32(len(out.slabs)), l.Add(s.Bytes(s.chunks[i]))
		}
		out.slabs = append(out.slabs, l)
		moved = moved[n:]
	}
	return out.finish()
}
