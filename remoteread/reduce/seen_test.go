package reduce

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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

// TestMark: each window sees the same of the samples that are kept as of all, and a sample that
// none sees is dropped.
func TestMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]function{everything, latest, earliest, largest, smallest}).Draw(t, "function")
		a := asked{width: rapid.Int64Range(1, 12).Draw(t, "width")}
		a.first, a.step = rapid.Int64Range(-5, 30).Draw(t, "first"), rapid.Int64Range(1, 9).Draw(t, "step")
		a.last = a.first + a.step*rapid.Int64Range(0, 8).Draw(t, "steps")
		times := rapid.SliceOfNDistinct(rapid.Int64Range(-10, 60), 0, 30, rapid.ID).Draw(t, "times")
		slices.Sort(times)
		values := make([]float64, len(times))
		for i := range values {
			values[i] = rapid.SampledFrom([]float64{1, 2, 2, 3, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1)}).Draw(t, "value")
		}
		m := marker{asked: a, function: f}
		kept := m.mark(nil, times, values)
		seen := map[int]bool{}
		for at := a.first; at <= a.last; at += a.step {
			in := func(i int) bool { return times[i] <= at && times[i] > at-a.width }
			var all, left []float64
			var indices []int
			for i, v := range values {
				if !in(i) {
					continue
				}
				all, indices = append(all, v), append(indices, i)
				if slices.Contains(kept, i) {
					left = append(left, v)
				}
			}
			require.Equal(t, len(all) == 0, len(left) == 0, "at %d", at)
			if f == everything {
				require.Len(t, left, len(all))
			}
			if len(all) == 0 {
				continue
			}
			for _, i := range indices {
				seen[i] = seen[i] || f == everything || math.IsNaN(values[i])
			}
			seen[indices[saw(f, all)]] = true
			if f != everything {
				require.Equal(t, math.Float64bits(all[saw(f, all)]), math.Float64bits(left[saw(f, left)]), "at %d", at)
			}
		}
		for _, i := range kept {
			require.True(t, seen[i], "sample %d is kept", i)
		}
	})
}
