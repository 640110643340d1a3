package window

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
)

// frame is the windows of all steps over one list of sample times: what a window
// function needs besides the values. Series that are scraped together have the
// same times and share a frame, so that finding the windows costs once what it
// would cost for each.
type frame struct {
	ts     []int64
	span   Span
	bounds              // of the windows
	any    []uint64     // bitmap of the steps with a sample
	counts dense.Counts // of a function with a value wherever there is a sample

	made   sync.Once
	shared int                 // how many of ts are a shared list's
	tail   []int64             // those behind them
	lender *column.SharedTimes // in whose spare memory ts ends
	joined []int64             // memory for ts where they are in no other
	even   column.EvenRuns     // of ts, where the shared list has some

	extra     extrapolation // made when first needed, or
	ends      edges         // of extended windows
	extraMade sync.Once
	used      atomic.Int64 // series evaluated over it and not yet counted
}

// reset makes f the frame of s over ts, which its runs are of if it has any.
func (f *frame) reset(ts []int64, s Span) {
	f.ts, f.span, f.extraMade = ts, s, sync.Once{}
	words := (s.Grid.Steps + 63) / 64
	f.any = slices.Grow(f.any[:0], words)[:words]
	f.counts = f.find(ts, f.even, s, f.any)
}

// join makes f the frame of s over t with tail for its own times. With borrow, it
// puts these into the spare memory of the shared list where it may.
func (f *frame) join(t column.Times, tail []int64, borrow bool, s Span) {
	f.even = t.EvenRuns(tail, f.even[:0])
	ts, lender := t.Join(tail, borrow, &f.joined)
	f.lender = lender
	f.reset(ts, s)
}

// countSamples adds the samples of the series evaluated over f to sc.
func (f *frame) countSamples(sc StepCounts) {
	used := f.used.Swap(0)
	if used == 0 {
		return
	}
	seen := int32(0)
	for k, hi := range f.hi {
		lo := f.lo[k]
		switch {
		case lo == hi:
		case f.span.instant:
			sc.All[k] += used
			sc.Fresh[k] += used
		default:
			sc.All[k] += used * int64(hi-lo)
			sc.Fresh[k] += used * int64(hi-max(lo, seen))
		}
		seen = hi
	}
}
