package dense

import (
	"math/bits"

	"github.com/promwarp/promwarp/plan"
)

// Runs returns the stretches of set bits among the first n of a bitmap.
func Runs(present []uint64, n int) []plan.Run {
	var out []plan.Run
	for k := 0; k < n; {
		w := present[k>>6] >> (k & 63)
		if w == 0 {
			k = (k>>6 + 1) << 6
			continue
		}
		k += bits.TrailingZeros64(w)
		first := k
		k = End(present, k, n)
		out = append(out, plan.Run{First: int32(first), Len: int32(k - first)})
	}
	return out
}

// End returns the end of the set bits from the k-th on, among the first n of a bitmap: k if it is not set.
func End(present []uint64, k, n int) int {
	for k < n {
		w := ^(present[k>>6] >> (k & 63))
		set := min(bits.TrailingZeros64(w), 64-k&63)
		k += set
		if k&63 != 0 || set == 0 {
			break
		}
	}
	return min(k, n)
}

// AppendRun appends a run of later steps to runs, or to the last of them if there is no step
// between the two.
func AppendRun(runs []plan.Run, run plan.Run) []plan.Run {
	if n := len(runs); n > 0 && runs[n-1].First+runs[n-1].Len == run.First {
		runs[n-1].Len += run.Len
		return runs
	}
	return append(runs, run)
}

// RunCursor walks the runs of a row.
type RunCursor struct {
	Row  *plan.Row
	run  int   // the current run
	base int32 // index of its first value
}

// Next returns the row's values at so many steps from first on, all of which
// have one, or nil if none of them has. Calls come in step order.
func (c *RunCursor) Next(first, length int32) []float64 {
	for ; c.run < len(c.Row.Runs); c.run++ {
		run := c.Row.Runs[c.run]
		if first < run.First {
			return nil
		}
		if at := c.base + first - run.First; first < run.First+run.Len {
			return c.Row.Values[at : at+length]
		}
		c.base += run.Len
	}
	return nil
}
