package reduce

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/selection/encoding"
)

// saw returns the index of the sample that f sees of those in a window, in Prometheus's words.
func saw(f function, vs []float64) int {
	best := 0
	switch f {
	case latest:
		return len(vs) - 1
	case largest, smallest:
		for i, v := range vs {
			if f == largest && v > vs[best] || f == smallest && v < vs[best] || math.IsNaN(vs[best]) {
				best = i
			}
		}
	}
	return best
}

// result returns what f makes of a window that ends at a time, in Prometheus's words. Two of the
// same length with the same bits are the same.
func result(f function, a asked, at int64, ts []int64, vs []float64) (out []float64) {
	n := len(ts) - 1
	sum, fell, changed := vs[n]-vs[0], 0.0, 0.0
	for i := 1; i <= n; i++ {
		if vs[i] < vs[i-1] {
			fell++
			if f == counter {
				sum += vs[i-1]
			}
		}
		if vs[i] != vs[i-1] && !(math.IsNaN(vs[i]) && math.IsNaN(vs[i-1])) {
			changed++
		}
	}
	start := at - a.width
	if a.closed {
		start++
	}
	switch {
	case f == lastTwo && n > 0:
		return []float64{vs[n-1], float64(ts[n-1]), vs[n], float64(ts[n])}
	case f == falling:
		return []float64{fell}
	case f == changing:
		return []float64{changed}
	case (f == ends || f == counter) && n > 0:
		toStart, toEnd := float64(ts[0]-start)/1000, float64(at-ts[n])/1000
		sampled := float64(ts[n]-ts[0]) / 1000
		mean := sampled / float64(n)
		if toStart >= mean*1.1 {
			toStart = mean / 2
		}
		if toEnd >= mean*1.1 {
			toEnd = mean / 2
		}
		if f == counter && sum > 0 && vs[0] >= 0 {
			toStart = min(toStart, sampled*(vs[0]/sum))
		}
		return []float64{sum * (sampled + toStart + toEnd) / sampled}
	}
	return nil
}

// bits are those of values, where all NaNs are one.
func bits(vs []float64) (out []uint64) {
	for _, v := range vs {
		if math.IsNaN(v) {
			v = math.NaN()
		}
		out = append(out, math.Float64bits(v))
	}
	return out
}

// TestMark: each window sees the same of the samples that are kept as of all, and a sample that
// none sees is dropped.
func TestMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]function{everything, latest, earliest, largest, smallest, lastTwo, ends, counter, falling, changing}).Draw(t, "function")
		a := asked{width: rapid.Int64Range(1, 30).Draw(t, "width"), reader: reader{closed: rapid.Bool().Draw(t, "closed")}}
		a.first, a.step = rapid.Int64Range(-5, 30).Draw(t, "first"), rapid.Int64Range(1, 9).Draw(t, "step")
		a.last = a.first + a.step*rapid.Int64Range(0, 8).Draw(t, "steps")
		times := rapid.SliceOfNDistinct(rapid.Int64Range(-10, 60), 0, 30, rapid.ID).Draw(t, "times")
		slices.Sort(times)
		values := make([]float64, len(times))
		rising := rapid.Bool().Draw(t, "rising")
		for i := range values {
			if values[i] = float64(i * i); rising {
				continue
			}
			values[i] = rapid.SampledFrom([]float64{1, 2, 2, 3, 4, 5, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1)}).Draw(t, "value")
		}
		m := marker{asked: a, function: f}
		kept := m.mark(nil, times, values)
		seen := map[int]bool{}
		for at := a.first; at <= a.last; at += a.step {
			in := func(i int) bool { return times[i] <= at && times[i] > at-a.width }
			var all, left []float64
			var allTimes, leftTimes []int64
			var indices []int
			for i, v := range values {
				if !in(i) {
					continue
				}
				all, allTimes, indices = append(all, v), append(allTimes, times[i]), append(indices, i)
				if slices.Contains(kept, i) {
					left, leftTimes = append(left, v), append(leftTimes, times[i])
				}
			}
			require.Equal(t, len(all) == 0, len(left) == 0, "at %d", at)
			if f == everything {
				require.Len(t, left, len(all))
			}
			if len(all) == 0 {
				continue
			}
			require.Equal(t, bits(result(f, a, at, allTimes, all)), bits(result(f, a, at, leftTimes, left)), "at %d", at)
			for _, i := range indices {
				seen[i] = f >= lastTwo || seen[i] || f == everything || math.IsNaN(values[i])
			}
			seen[indices[saw(f, all)]] = true
			if f != everything && f < lastTwo {
				require.Equal(t, math.Float64bits(all[saw(f, all)]), math.Float64bits(left[saw(f, left)]), "at %d", at)
			}
		}
		for _, i := range kept {
			require.True(t, seen[i], "sample %d is kept", i)
		}
	})
}

// TestMarkCounter: of samples at regular times, a rate sees the first and the last of each window,
// and the two where values fall. Where some are missing it sees all.
func TestMarkCounter(t *testing.T) {
	m := marker{asked: asked{grid: grid{first: 20 * minute, last: 40 * minute, step: 10 * minute}, width: 5 * minute}, function: counter}
	var ts []int64
	var vs []float64
	for at := int64(0); at < 45*minute; at += 15 * second {
		if at > 39*minute && at < 40*minute {
			continue
		}
		ts, vs = append(ts, at+3*second), append(vs, float64(at%(27*minute)))
	}
	var kept []string
	for _, k := range m.mark(nil, ts, vs) {
		kept = append(kept, (time.Duration(ts[k]) * time.Millisecond).String())
	}
	require.Equal(t, []string{"15m3s", "19m48s", "25m3s", "26m48s", "27m3s", "29m48s"}, kept[:6])
	require.Len(t, kept, 6+17)
}

// TestMarkBetween: a sample more between two far ones takes fewer bytes than none.
func TestMarkBetween(t *testing.T) {
	m := marker{asked: asked{grid: grid{first: 2 * hour, last: 20 * hour, step: 10 * minute}, width: hour}, function: counter}
	var ts []int64
	var vs []float64
	for at := int64(0); at < 20*hour; at += 15 * second {
		ts, vs = append(ts, at+3*second), append(vs, float64(at/1000*7919%1009+at))
	}
	size := func(kept []int) int {
		var times []int64
		var values []float64
		for _, k := range kept {
			times, values = append(times, ts[k]), append(values, vs[k])
		}
		return len(encoding.AppendTightXOR(nil, times, values))
	}
	kept := m.mark(nil, ts, vs)
	var seen []int
	for i, s := range m.seen {
		if s {
			seen = append(seen, i)
		}
	}
	require.Less(t, len(seen), len(kept))
	require.Less(t, 10*size(kept), 9*size(seen), "%d bytes of %d samples, %d of %d", size(kept), len(kept), size(seen), len(seen))
}
