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
	w := cursor{row: out}
	defer w.flush()
	j, stride := 0, 0 // samples not after the step, and how far j moved last
	for k := 0; k < s.grid.Steps; k++ {
		t := s.scan.Times(s.grid.At(k))
		j, stride = after(ts, j, stride, t)
		if j == 0 || ts[j-1] <= t-s.width || value.IsStaleNaN(vs[j-1]) {
			continue
		}
		w.set(k, vs[j-1])
		sc.all[k]++
		sc.fresh[k]++
		c.points++
	}
	return c
}

// shape is what the extrapolation of a window depends on besides its values. At
// regular scrapes all windows of a series have the same, or a few.
type shape struct {
	n           int   // samples
	lead, trail int64 // ms from the window's start to its first sample, and from its last to the end
	seconds     float64
	covered     float64 // seconds from the first sample to the last
	toStart     float64 // seconds to extrapolate before the first sample
	toEnd       float64 // and after the last
	factor      float64
}

// newShape makes the shape of a window of n samples that cover so many ms.
// seconds divides the result; 0 stands for none.
func newShape(n int, lead, trail, covered int64, seconds float64) shape {
	sh := shape{n: n, lead: lead, trail: trail, seconds: seconds, covered: float64(covered) / 1000}
	spacing := sh.covered / float64(n-1)
	threshold := float64(spacing * 1.1)
	if sh.toStart = float64(lead) / 1000; sh.toStart >= threshold {
		sh.toStart = spacing / 2
	}
	if sh.toEnd = float64(trail) / 1000; sh.toEnd >= threshold {
		sh.toEnd = spacing / 2
	}
	sh.factor = sh.extrapolate(sh.toStart)
	return sh
}

// extrapolate is the factor from the increase between samples to that of the
// window, when it is extended by toStart seconds before the first sample.
func (sh *shape) extrapolate(toStart float64) float64 {
	f := (sh.covered + toStart + sh.toEnd) / sh.covered
	if sh.seconds != 0 {
		f /= sh.seconds
	}
	return f
}

// difference says what extrapolated makes of a window's first and last sample.
type difference int

const (
	gaugeDelta      difference = iota // their difference
	counterIncrease                   // the same, with resets made up for and never below zero
	counterRate                       // that, per second
)

// extrapolated fills out with the difference between the first and the last
// sample of each step's window, extrapolated to the window's ends. It is
// Prometheus's extrapolatedRate for floats, operation by operation.
//
// resets is scratch memory; the grown slice is returned for the next call.
//
//	increase = (v[last] - v[first] + sum of v[r-1] over resets r) *
//	           (covered + to start + to end) / covered
func extrapolated(ts []int64, vs []float64, s span, kind difference, resets []int32, out row, sc stepCounts) (counts, []int32) {
	var c counts
	resets = resets[:0]
	if kind != gaugeDelta {
		for i := 1; i < len(vs); i++ {
			if vs[i] < vs[i-1] {
				resets = append(resets, int32(i))
			}
		}
	}
	seconds := 0.0
	if kind == counterRate {
		seconds = (time.Duration(s.width) * time.Millisecond).Seconds()
	}
	i, j, r := 0, 0, 0 // the window is ts[i:j]; resets[r:] come after i
	seen := 0          // samples that earlier windows ended before
	strideI, strideJ := 0, 0
	var sh shape
	w := cursor{row: out}
	defer w.flush()
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

		if n != sh.n || ts[i]-start != sh.lead || end-ts[j-1] != sh.trail {
			sh = newShape(n, ts[i]-start, end-ts[j-1], ts[j-1]-ts[i], seconds)
		}
		factor := sh.factor
		// A counter is never negative: do not extrapolate below zero. That needs
		// a look only where the first value is less than the increase, unless
		// the way to the start is longer than all that is covered.
		if kind != gaugeDelta && increase > 0 && vs[i] >= 0 && (vs[i] < increase || sh.toStart > sh.covered) {
			if toZero := float64(sh.covered * (vs[i] / increase)); toZero < sh.toStart {
				factor = sh.extrapolate(toZero)
			}
		}
		w.set(k, float64(increase*factor))
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
