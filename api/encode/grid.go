package encode

import (
	"slices"

	"github.com/prometheus/prometheus/promql"
)

// slotBytes is the size of a slot: the longest text, 31 bytes, and its length.
const slotBytes = 32

// slot is what stands between the values of two points, `"],[1435781430.781,"`
// for the time of the second. Its last byte is the length of the text. It has
// one size for all times so that it is copied by two instructions.
type slot [slotBytes]byte

// slotFor returns the slot for a time in ms.
func slotFor(ms int64) slot {
	var s slot
	b := append(s[:0], `"],[`...)
	b = appendTimestamp(b, ms)
	b = append(b, `,"`...)
	s[slotBytes-1] = byte(len(b))
	return s
}

// opening is how many bytes of a slot close the point before.
const opening = len(`"],`)

// grid has the slots of the times that many series share: the steps of a range
// query. A grid is complete for the series it is made from; others may have
// points off it.
type grid struct {
	times []int64
	slots []slot
}

// maxGrid bounds a grid's memory, 40 bytes a time. A range query has at most
// 11 001 steps.
const maxGrid = 1 << 15

// newGrid returns the grid of the longest series, or none where it would not be
// used more than once.
func newGrid(m promql.Matrix) grid {
	longest, points := 0, 0
	for i := range m {
		points += len(m[i].Floats)
		if len(m[i].Floats) > len(m[longest].Floats) {
			longest = i
		}
	}
	if points == 0 || points < 2*len(m[longest].Floats) {
		return grid{}
	}
	ps := m[longest].Floats
	ps = ps[:min(len(ps), maxGrid)]
	g := grid{times: make([]int64, len(ps)), slots: make([]slot, len(ps))}
	for i := range ps {
		g.times[i] = ps[i].T
		g.slots[i] = slotFor(ps[i].T)
	}
	return g
}

// find returns the first place in the grid that is not before a time in ms.
func (g *grid) find(ms int64) int {
	i, _ := slices.BinarySearch(g.times, ms)
	return i
}
