// Package frame finds the windows of a grid's steps over the times of samples.
//
// A Span, which is the grid and how far windows reach, and the times of a series (column.Times) go
// into Frames; a Frame comes out: where the windows of all steps begin and end (Bounds), and what
// functions need of them besides values: what differences are extrapolated by (Extrapolation), where
// extended windows begin and end (Edges), and the times' part in least-squares lines (Trend, Lines). It
// never looks at a value.
//
// Series that are scraped together have the same times and share a Frame, which is made once.
//
// Start with Frames.Over and Bounds.
package frame

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
)

// Frame is the windows of all steps over one list of sample times: what a window
// function needs besides the values. Series that are scraped together have the
// same times and share a frame, so that finding the windows costs once what it
// would cost for each.
type Frame struct {
	times
	Span   Span
	Bounds              // of the windows
	Any    []uint64     // bitmap of the steps with a sample
	Counts dense.Counts // of a function with a value wherever there is a sample

	number uint64 // of all frames, since memory is used again

	own  []int64 // times that are no shared list's
	made sync.Once

	extra     Extrapolation // made when first needed, or
	ends      Edges         // of extended windows, or
	extraMade sync.Once
	line      []Trend // made when first needed
	lineMade  sync.Once

	strides     strides // made when first needed
	stridesMade sync.Once
	bunches     strides // with these
	bunchesMade sync.Once
}

// frames counts them.
var frames atomic.Uint64

// reset makes f the frame of s over the times of, with tail in place of their own.
func (f *Frame) reset(s Span, of column.Times, tail []int64) {
	f.Span, f.number = s, frames.Add(1)
	f.of, f.tail, f.n = of, tail, of.Known+len(tail)
	f.runs = of.Runs(tail, &f.times.memory)
	f.once = sync.Once{}
	f.extraMade = sync.Once{}
	f.lineMade = sync.Once{}
	f.stridesMade = sync.Once{}
	f.bunchesMade = sync.Once{}
	words := (s.Grid.Steps + 63) / 64
	f.Any = slices.Grow(f.Any[:0], words)[:words]
	f.Counts = f.find(&f.times, s, f.Any)
}

// times are the times of a frame's samples: runs where there are some, and else, or where
// somebody asks, a list.
type times struct {
	n    int
	of   column.Times // with tail for its own
	tail []int64
	runs column.Runs

	once   sync.Once
	ts     []int64
	joined []int64     // memory for ts where they are in no other
	memory column.Runs // for runs
}

// List returns all times in ms.
func (t *times) List() []int64 {
	t.once.Do(func() { t.ts = t.of.Join(t.tail, &t.joined) })
	return t.ts
}

// At is the time of sample i in ms.
func (t *times) At(i int) int64 {
	if i >= t.of.Known {
		return t.tail[i-t.of.Known]
	}
	if len(t.runs.Even) == 0 {
		return t.List()[i]
	}
	k := sort.Search(len(t.runs.Even), func(k int) bool { return int(t.runs.Even[k].To) > i })
	return t.runs.At(k, int32(i))
}
