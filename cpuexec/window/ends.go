package window

import (
	"sort"

	"github.com/promwarp/promwarp/plan"
)

// This file is for functions that look at one or two samples at the ends of each
// window and, where a counter was reset, at those around that. Of a packed column,
// which may have many more samples than there are steps, only these are unpacked.

// TakesPacked reports whether f takes packed values as they are.
func TakesPacked(f *plan.WindowFunc) bool { return Of(f).Reads != Unpacked }

// splitPacked returns the first step with samples behind the packed ones, and puts all
// samples into in.Values that this and later steps read, and the last packed one: at
// their places, what is before them means nothing. The memory is the evaluator's.
func (s *Evaluator) splitPacked() int {
	in, fr := &s.in, s.fr
	if in.Units == nil {
		return fr.from
	}
	known := len(in.Units)
	split := fr.from + sort.Search(fr.to-fr.from, func(k int) bool { return int(fr.hi[fr.from+k]) > known })
	from := known - 1
	if split < fr.to {
		from = min(from, int(fr.lo[split]))
	}
	in.UnpackFrom(from, &s.joined)
	return split
}
