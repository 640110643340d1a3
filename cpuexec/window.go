package cpuexec

import (
	"math/bits"
	"time"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/plan"
)

// row is where the values of one series go: one slot a step, and a bitmap of
// the steps that have a value.
type row struct {
	vals    []float64
	present []uint64
}

func (r row) set(k int, v float64) {
	r.vals[k] = v
	r.present[k>>6] |= 1 << (k & 63)
}

// counts are what the sample limit and the query statistics need of a series.
type counts struct {
	points     int // steps with a value
	maxWindow  int // most samples in one window
	lastWindow int // samples in the window of the last step
}

// stepCounts add up samples per step over the series of a worker.
type stepCounts struct {
	all, fresh []int64 // samples in the step's window; those no earlier step had
}

// span is the window function's view of the grid: what each step reads.
type span struct {
	grid  plan.Grid
	scan  *plan.Scan
	width int64
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

// lastSample fills out with the newest sample within the lookback of each step;
// a stale marker there means no value.
//
//	out[k] = v[j], j the last with ts[j] <= T and ts[j] > T-lookback
func lastSample(ts []int64, vs []float64, s span, out row, sc stepCounts) (c counts) {
	j, stride := 0, 0 // samples not after the step, and how far j moved last
	for k := 0; k < s.grid.Steps; k++ {
		t := s.scan.Times(s.grid.At(k))
		j, stride = after(ts, j, stride, t)
		if j == 0 || ts[j-1] <= t-s.width || value.IsStaleNaN(vs[j-1]) {
			continue
		}
		out.set(k, vs[j-1])
		sc.all[k]++
		sc.fresh[k]++
		c.points++
	}
	return c
}

// rate fills out with the extrapolated increase of a counter over each step's
// window, and divides by the window's width when perSecond is set. It is
// Prometheus's extrapolatedRate for floats, operation by operation.
//
// resets is scratch memory; the grown slice is returned for the next call.
//
//	increase = (v[last] - v[first] + sum of v[r-1] over resets r) *
//	           (covered + to start + to end) / covered
func rate(ts []int64, vs []float64, s span, perSecond bool, resets []int32, out row, sc stepCounts) (counts, []int32) {
	var c counts
	resets = resets[:0]
	for i := 1; i < len(vs); i++ {
		if vs[i] < vs[i-1] {
			resets = append(resets, int32(i))
		}
	}
	seconds := (time.Duration(s.width) * time.Millisecond).Seconds()
	i, j, r := 0, 0, 0 // the window is ts[i:j]; resets[r:] come after i
	seen := 0          // samples that earlier windows ended before
	strideI, strideJ := 0, 0
	for k := 0; k < s.grid.Steps; k++ {
		end := s.scan.Times(s.grid.At(k))
		start := end - s.width
		j, strideJ = after(ts, j, strideJ, end)
		i, strideI = after(ts, i, strideI, start)
		n := j - i
		c.lastWindow = n
		if n == 0 {
			seen = j
			continue
		}
		c.maxWindow = max(c.maxWindow, n)
		sc.all[k] += int64(n)
		sc.fresh[k] += int64(j - max(i, seen))
		seen = j
		if n == 1 {
			continue
		}
		increase := vs[j-1] - vs[i]
		for r < len(resets) && int(resets[r]) <= i {
			r++
		}
		for q := r; q < len(resets) && int(resets[q]) < j; q++ {
			increase += vs[resets[q]-1]
		}

		covered := float64(ts[j-1]-ts[i]) / 1000
		spacing := covered / float64(n-1)
		threshold := spacing * 1.1
		toStart := float64(ts[i]-start) / 1000
		toEnd := float64(end-ts[j-1]) / 1000
		if toStart >= threshold {
			toStart = spacing / 2
		}
		// A counter is never negative: do not extrapolate below zero.
		if increase > 0 && vs[i] >= 0 {
			if toZero := float64(covered * (vs[i] / increase)); toZero < toStart {
				toStart = toZero
			}
		}
		if toEnd >= threshold {
			toEnd = spacing / 2
		}
		factor := (covered + toStart + toEnd) / covered
		if perSecond {
			factor /= seconds
		}
		out.set(k, float64(increase*factor))
		c.points++
	}
	return c, resets
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
