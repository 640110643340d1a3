package window

import (
	"sort"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/plan"
)

// This file is for functions that look at one or two samples at the ends of each
// window and, where a counter was reset, at those around that. Of a packed column,
// which may have many more samples than there are steps, only these are unpacked.

// atEnds reports whether f is such a function.
func atEnds(f *plan.WindowFunc) bool {
	switch f.Name {
	case "rate", "increase", "delta", "irate", "idelta", "resets":
		return true
	}
	return f == plan.Last || f == plan.Interpolated
}

// TakesPacked reports whether f takes packed values as they are.
func TakesPacked(f *plan.WindowFunc) bool {
	return atEnds(f) || f.Name == "sum_over_time" || f.Name == "avg_over_time"
}

// split returns the first step of fr with samples behind the packed ones of in, and
// puts all samples into in.vs that this and later steps read, and the last packed
// one: at their places, what is before them means nothing. The memory is the
// evaluator's.
func (s *Evaluator) split(in *column.Samples, fr *frame) int {
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
