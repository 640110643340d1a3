package reduce

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// saw returns the index of the sample that f sees of those in a window, in Prometheus's words.
func saw(f window.Sees, vs []float64) int {
	best := 0
	switch f {
	case window.Latest:
		return len(vs) - 1
	case window.Largest, window.Smallest:
		for i, v := range vs {
			if f == window.Largest && v > vs[best] || f == window.Smallest && v < vs[best] || math.IsNaN(vs[best]) {
				best = i
			}
		}
	}
	return best
}

// result returns what f makes of a window that ends at a time, in Prometheus's words. Two of the
// same length with the same bits are the same.
func result(f window.Sees, a asked, at int64, ts []int64, vs []float64) (out []float64) {
	n := len(ts) - 1
	sum, fell, changed := vs[n]-vs[0], 0.0, 0.0
	for i := 1; i <= n; i++ {
		if vs[i] < vs[i-1] {
			fell++
			if f == window.Counter {
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
	case f == window.LastTwo && n > 0:
		return []float64{vs[n-1], float64(ts[n-1]), vs[n], float64(ts[n])}
	case f == window.Falling:
		return []float64{fell}
	case f == window.Changing:
		return []float64{changed}
	case (f == window.FirstLast || f == window.Counter) && n > 0:
		toStart, toEnd := float64(ts[0]-start)/1000, float64(at-ts[n])/1000
		sampled := float64(ts[n]-ts[0]) / 1000
		mean := sampled / float64(n)
		if toStart >= mean*1.1 {
			toStart = mean / 2
		}
		if toEnd >= mean*1.1 {
			toEnd = mean / 2
		}
		if f == window.Counter && sum > 0 && vs[0] >= 0 {
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
		f := rapid.SampledFrom([]window.Sees{window.Everything, window.Latest, window.Earliest, window.Largest, window.Smallest, window.LastTwo, window.FirstLast, window.Counter, window.Falling, window.Changing}).Draw(t, "function")
		a := asked{width: rapid.Int64Range(1, 30).Draw(t, "width"), reader: reader{closed: rapid.Bool().Draw(t, "closed")}}
		a.first, a.step = rapid.Int64Range(-5, 30).Draw(t, "first"), rapid.Int64Range(1, 9).Draw(t, "step")
		if f.Extreme() { // of ranges that overlap all samples are sent
			a.width = min(a.width, a.step)
		}
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
		m := marker{asked: a, Sees: f}
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
			if f == window.Everything {
				require.Len(t, left, len(all))
			}
			if len(all) == 0 {
				continue
			}
			require.Equal(t, bits(result(f, a, at, allTimes, all)), bits(result(f, a, at, leftTimes, left)), "at %d", at)
			for _, i := range indices {
				seen[i] = f >= window.LastTwo || seen[i] || f == window.Everything || math.IsNaN(values[i])
			}
			seen[indices[saw(f, all)]] = true
			if f != window.Everything && f < window.LastTwo {
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
	m := marker{asked: asked{grid: grid{first: 20 * minute, last: 40 * minute, step: 10 * minute}, width: 5 * minute}, Sees: window.Counter}
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

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
)

var (
	newer = serve.Release{Major: 3, Minor: 15}
	older = serve.Release{Major: 2, Minor: 42}
)

// What a Prometheus with a lookback of 5 minutes says of selectors, and what is understood.
func TestUnderstand(t *testing.T) {
	const start, end = 10 * hour, 12 * hour
	since := func(start, width int64) int64 { return start - width + 1 } // as release 3 has it
	for name, c := range map[string]struct {
		reader serve.Release
		hints  *storage.SelectHints
		want   grid
		width  int64
		why    reason
	}{
		"x":                        {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: end, Step: minute}, want: grid{start, end, minute}, width: 5 * minute},
		"x, release 2":             {reader: older, hints: &storage.SelectHints{Start: start - 5*minute, End: end, Step: minute}, want: grid{start, end, minute}, width: 5*minute + 1},
		"rate(x[1h])":              {reader: newer, hints: &storage.SelectHints{Start: since(start, hour), End: end, Step: minute, Range: hour, Func: "rate"}, want: grid{start, end, minute}, width: hour},
		"rate(x[1h]), release 2":   {reader: older, hints: &storage.SelectHints{Start: start - hour, End: end, Step: minute, Range: hour}, want: grid{start, end, minute}, width: hour + 1},
		"until no step":            {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: end - 1, Step: minute}, want: grid{start, end - minute, minute}, width: 5 * minute},
		"instant":                  {reader: newer, hints: &storage.SelectHints{Start: since(start+7, 5*minute), End: start + 7}, want: grid{start + 7, start + 7, 1}, width: 5 * minute},
		"x @ 7":                    {reader: newer, hints: &storage.SelectHints{Start: since(7*second, 5*minute), End: 7 * second, Step: minute}, want: grid{7 * second, 7 * second, 1}, width: 5 * minute},
		"before 1970":              {reader: newer, hints: &storage.SelectHints{Start: since(-start, 5*minute), End: end, Step: minute}, want: grid{-start, end, minute}, width: 5 * minute},
		"no hints":                 {reader: newer, why: noHints},
		"series":                   {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start, Func: "series"}, why: noHints},
		"empty hints":              {reader: newer, hints: &storage.SelectHints{Func: "sum"}, why: noHints},
		"no Prometheus":            {hints: &storage.SelectHints{Start: since(start, 5*minute), End: start}, why: unknownReader},
		"a later release":          {reader: serve.Release{Major: 3, Minor: 16}, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start}, why: unknownReader},
		"an earlier release":       {reader: serve.Release{Major: 2, Minor: 41}, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start}, why: unknownReader},
		"info":                     {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start, Func: "info"}, why: unlikeOthers},
		"not aligned":              {reader: newer, hints: &storage.SelectHints{Start: since(start+second, 5*minute), End: end, Step: minute}, why: notAligned},
		"offset 7s":                {reader: newer, hints: &storage.SelectHints{Start: since(start-7*second, 5*minute), End: end - 7*second, Step: minute}, why: notAligned},
		"lookback of 1m, instant":  {reader: newer, hints: &storage.SelectHints{Start: since(start, minute), End: start}, why: wrongLookback},
		"lookback of 10m, instant": {reader: newer, hints: &storage.SelectHints{Start: since(start, 10*minute), End: start}, why: wrongLookback},
		"x smoothed, instant":      {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start + 5*minute}, why: wrongLookback},
		"anchored, instant":        {reader: newer, hints: &storage.SelectHints{Start: since(start, 6*minute), End: start, Range: minute}, why: wrongLookback},
		"federation":               {reader: newer, hints: &storage.SelectHints{Start: start - 5*minute, End: start}, why: wrongLookback},
		"no time":                  {reader: newer, hints: &storage.SelectHints{Start: math.MinInt64, End: math.MaxInt64, Step: 1}, why: wrongLookback},
		"negative step":            {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: end, Step: -minute}, why: wrongLookback},
	} {
		got, why := understand(serve.Query{Hints: c.hints, Reader: c.reader}, 5*time.Minute)
		require.Equal(t, c.why, why, name)
		require.Equal(t, c.want, got.grid, name)
		require.Equal(t, c.width, got.width, name)
	}
}

// FuzzUnderstand: whatever is understood is a grid within the hints, whose windows reach back to
// their start.
func FuzzUnderstand(f *testing.F) {
	f.Add(int64(1), int64(300_000), minute, int64(0), 3, 15, int64(5))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), 2, 42, int64(0))
	f.Add(int64(math.MaxInt64/8), int64(math.MaxInt64/8), int64(math.MaxInt64/8), int64(1), 2, 42, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, start, end, step, width int64, major, minor int, lookback int64) {
		q := serve.Query{Hints: &storage.SelectHints{Start: start, End: end, Step: step, Range: width}, Reader: serve.Release{Major: major, Minor: minor}}
		a, why := understand(q, time.Duration(lookback))
		if why != "" {
			return
		}
		require.Positive(t, a.step)
		require.Positive(t, a.steps())
		require.Equal(t, start, a.first-a.width+1)
		require.True(t, a.first <= a.last && a.last <= end, "%+v", a)
		require.Zero(t, (a.last-a.first)%a.step)
		require.Greater(t, a.last+a.step, end)
		for _, at := range []int64{start, end, a.first, a.last, a.first + 1, (start + end) / 2} {
			after := a.after(at)
			require.True(t, after >= at && after >= a.first && (after == a.first || after-a.step < at), "%d after %d", after, at)
		}
	})
}

// TestNewestRelease: with another release of Prometheus in go.mod, TestReducedReads in engine/
// says whether its hints mean the same; then newestMinor3 follows.
func TestNewestRelease(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(mod), fmt.Sprintf("github.com/prometheus/prometheus v0.3%02d.", newestMinor3))
}
