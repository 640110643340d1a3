package cpuexec

import (
	"sort"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// stepCounts add up samples per step over the series of a worker.
type stepCounts struct {
	all, fresh []int64 // samples in the step's window; those no earlier step had
}

// span is the window function's view of the grid: what each step reads.
type span struct {
	grid      plan.Grid
	scan      *plan.Scan
	width     int64
	instant   bool            // only the window's newest sample counts
	done      <-chan struct{} // see watch
	extension plan.Extension  // that width and scan are extended by
}

// spanOf is what steps of g read of w.
func spanOf(w *plan.Window, g plan.Grid, done <-chan struct{}) span {
	s := span{grid: g, scan: w.Scan, instant: w.Func.Instant, done: done, extension: w.Extension}
	offset := int64(0)
	if s.width, offset = w.Reach(); offset != w.Scan.Offset {
		s.scan = &plan.Scan{Offset: offset, Fixed: w.Scan.Fixed}
	}
	return s
}

// after returns the index of the first sample later than t, at or after from,
// and how far that is from from. Scrapes are regular, so the distance of the
// step before is tried first.
func after(ts []int64, from, stride int, t int64) (int, int) {
	if g := from + stride; g <= len(ts) && (g == from || ts[g-1] <= t) && (g == len(ts) || ts[g] > t) {
		return g, stride
	}
	i := from
	for i < len(ts) && ts[i] <= t {
		i++
	}
	return i, i - from
}

// lastSample fills out with the newest sample within the lookback of each step.
// Where that is a stale marker, which stale lists in their order, there is no
// value.
//
//	out[k] = v[j], j the last with ts[j] <= T and ts[j] > T-lookback
//
// Steps before split have packed samples.
func lastSample(fr *frame, in *column.Samples, split int, stale []int32, out dense.Row, sc stepCounts) dense.Counts {
	fr.used.Add(1)
	copy(out.Present, fr.any)
	for k := fr.from; k < split; {
		k += packedLast(out.Values[k:split], &in.Packed, fr.hi[k:split])
		for end := min(k+exact.Lanes, split); k < end; k++ {
			if hi := fr.hi[k]; hi > 0 {
				out.Values[k] = in.Value(hi - 1)
			}
		}
	}
	vals, vs := out.Values[split:fr.to], in.Values
	for k, hi := range fr.hi[split:fr.to] {
		if hi > 0 {
			vals[k] = vs[hi-1]
		}
	}
	points := fr.counts.Points
	k := fr.from
	for _, i := range stale {
		// The first step whose newest sample comes no earlier.
		k += sort.Search(fr.to-k, func(n int) bool { return fr.hi[k+n] > i })
		for ; k < fr.to && fr.hi[k] == i+1; k++ {
			if fr.lo[k] > i {
				continue
			}
			out.Present[k>>6] &^= 1 << (k & 63)
			sc.all[k]--
			sc.fresh[k]--
			points--
		}
	}
	return dense.Counts{Points: points}
}
