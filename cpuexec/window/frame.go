package window

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/spin"
)

// frame is the windows of all steps over one list of sample times: what a window
// function needs besides the values. Series that are scraped together have the
// same times and share a frame, so that finding the windows costs once what it
// would cost for each.
type frame struct {
	times
	span   Span
	bounds              // of the windows
	any    []uint64     // bitmap of the steps with a sample
	counts dense.Counts // of a function with a value wherever there is a sample

	// What Frames finds it by, before it is made and after.
	place  column.Place // of the times that are a shared list's
	shared int          // how many these are
	own    []int64      // the others
	next   *frame       // in the chain of Frames
	made   spin.Once

	extra     extrapolation // made when first needed, or
	ends      edges         // of extended windows
	extraMade spin.Once
	line      []trend // made when first needed
	lineMade  spin.Once
}

// reset makes f the frame of s over its times.
func (f *frame) reset(s Span) {
	f.span = s
	f.extraMade.Reset()
	f.lineMade.Reset()
	words := (s.Grid.Steps + 63) / 64
	f.any = slices.Grow(f.any[:0], words)[:words]
	f.counts = f.find(&f.times, s, f.any)
}
