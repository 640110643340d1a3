package cpuexec

import (
	"math/bits"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// row is where the values of one series go: one slot a step, and a bitmap of
// the steps that have a value.
type row struct {
	vals    []float64
	present []uint64
}

// newRow is a row of so many steps without a value.
func newRow(steps int) row {
	return row{vals: make([]float64, steps), present: make([]uint64, (steps+63)/64)}
}

func (r row) set(k int, v float64) {
	r.vals[k] = v
	r.present[k>>6] |= 1 << (k & 63)
}

// cursor writes a row whose values come in step order. It gathers a word of the
// bitmap before it stores it.
type cursor struct {
	row
	word uint64
	at   int // index of word
}

func (c *cursor) set(k int, v float64) {
	if w := k >> 6; w != c.at {
		c.flush()
		c.at = w
	}
	c.vals[k] = v
	c.word |= 1 << (k & 63)
}

func (c *cursor) flush() {
	c.present[c.at] |= c.word
	c.word = 0
}

// counts are what the sample limit and the query statistics need of a series.
type counts struct {
	points     int // steps with a value
	kept       int // of them after maps
	maxWindow  int // most samples in one window
	lastWindow int // samples in the window of the last step
}

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
func lastSample(fr *frame, in *samples, split int, stale []int32, out row, sc stepCounts) counts {
	fr.used.Add(1)
	copy(out.present, fr.any)
	for k := fr.from; k < split; {
		k += packedLast(out.vals[k:split], &in.packed, fr.hi[k:split])
		for end := min(k+exact.Lanes, split); k < end; k++ {
			if hi := fr.hi[k]; hi > 0 {
				out.vals[k] = in.value(hi - 1)
			}
		}
	}
	vals, vs := out.vals[split:fr.to], in.vs
	for k, hi := range fr.hi[split:fr.to] {
		if hi > 0 {
			vals[k] = vs[hi-1]
		}
	}
	points := fr.counts.points
	k := fr.from
	for _, i := range stale {
		// The first step whose newest sample comes no earlier.
		k += sort.Search(fr.to-k, func(n int) bool { return fr.hi[k+n] > i })
		for ; k < fr.to && fr.hi[k] == i+1; k++ {
			if fr.lo[k] > i {
				continue
			}
			out.present[k>>6] &^= 1 << (k & 63)
			sc.all[k]--
			sc.fresh[k]--
			points--
		}
	}
	return counts{points: points}
}

// runs returns the stretches of set bits among the first n of a bitmap.
func runs(present []uint64, n int) []plan.Run {
	var out []plan.Run
	for k := 0; k < n; {
		w := present[k>>6] >> (k & 63)
		if w == 0 {
			k = (k>>6 + 1) << 6
			continue
		}
		k += bits.TrailingZeros64(w)
		first := k
		for k < n {
			w := ^(present[k>>6] >> (k & 63))
			step := min(bits.TrailingZeros64(w), 64-k&63)
			k += step
			if k&63 != 0 || step == 0 {
				break
			}
		}
		k = min(k, n)
		out = append(out, plan.Run{First: int32(first), Len: int32(k - first)})
	}
	return out
}
