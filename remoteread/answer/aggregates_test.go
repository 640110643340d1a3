package answer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// counterChunk is what Thanos makes of a counter's raw samples, one each 2 ms, in windows of w ms: the first
// raw value, the values at the ends of windows as if there had been no reset, and the last raw value.
func counterChunk(raw []float64, w int64) (times []int64, values []float64) {
	last := 2 * int64(len(raw)-1)
	times, values = append(times, 0), append(values, raw[0])
	total := raw[0]
	for i, v := range raw {
		if i > 0 && v >= raw[i-1] {
			total += v - raw[i-1]
		} else if i > 0 {
			total += v
		}
		at := 2 * int64(i)
		end := min(at-at%w+w-1, last)
		if i == len(raw)-1 || at+2 > end {
			times, values = append(times, end), append(values, total)
		}
	}
	return append(times, last), append(values, raw[len(raw)-1])
}

// increaseOf is the increase of a counter as Prometheus has it.
func increaseOf(values []float64) (sum float64) {
	for i := 1; i < len(values); i++ {
		if sum += values[i]; values[i] >= values[i-1] {
			sum -= values[i-1]
		}
	}
	return sum
}

// A counter that was made of a chunk of lower resolution begins and ends as the raw one does, and has its
// increase, whatever resets there were.
func TestWithResets(t *testing.T) {
	for name, one := range map[string]struct {
		raw  []float64
		want []float64
	}{
		"none":                          {[]float64{7, 8, 9, 9, 12, 14}, []float64{7, 9, 14}},
		"one sample":                    {[]float64{5}, []float64{5}},
		"in a window that goes on":      {[]float64{7, 8, 9, 3, 4, 5, 6, 7}, []float64{7, 9, 5, 7}},
		"after it rose on":              {[]float64{7, 8, 9, 12, 4, 5, 6, 7}, []float64{7, 9, 12, 5, 7}},
		"rising higher than it was":     {[]float64{1, 1, 1, 0, 3, 5, 5, 5}, []float64{1, 1, 0, 5, 5}},
		"to nothing, in the last place": {[]float64{4, 4, 4, 4, 4, 0}, []float64{4, 4, 0}},
	} {
		times, values := counterChunk(one.raw, 6)
		_, got, err := withResets(times, values)
		require.NoError(t, err, name)
		require.Equal(t, one.want, got, name)
	}
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 1))
		raw := []float64{float64(r.IntN(10))}
		for range r.IntN(60) {
			next := raw[len(raw)-1] + float64(r.IntN(4))
			if r.IntN(8) == 0 {
				next = float64(r.IntN(9))
			}
			raw = append(raw, next)
		}
		times, values := counterChunk(raw, 20)
		gotTimes, got, err := withResets(times, values)
		require.NoError(t, err, seed)
		require.True(t, slices.IsSorted(gotTimes) && len(slices.Compact(slices.Clone(gotTimes))) == len(gotTimes), "seed %d: %v", seed, gotTimes)
		require.Equal(t, increaseOf(raw), increaseOf(got), "seed %d: %v as %v of %v", seed, raw, got, values)
		require.Equal(t, raw[len(raw)-1], got[len(got)-1], seed)
		require.Equal(t, raw[0], got[0], seed)
	}
	for _, values := range [][]float64{{1}, {1, 2}} {
		_, _, err := withResets([]int64{1, 2}[:len(values)], values)
		require.ErrorContains(t, err, "lacks its last raw value")
	}
}
