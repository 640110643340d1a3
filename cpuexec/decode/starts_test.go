package decode

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
)

// all are the start timestamps of the first n samples.
func (s Starts) all(n int) (out []int64) {
	at := s.Cursor()
	for i := range n {
		out = append(out, at.At(int32(i)))
	}
	return out
}

// TestStartRuns: runs that are made sample by sample, cut, joined and rid of stale
// markers are those of the list that this leaves, and neighbours differ.
func TestStartRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	random := func(n int) (starts []int64, vs []float64, runs Starts) {
		kind := r.IntN(4)
		for i := range n {
			start := int64(0)
			switch {
			case kind == 1:
				start = 7
			case kind == 2:
				start = int64(r.IntN(3))
			case kind == 3 && i > n/2:
				start = 5
			}
			v := float64(i)
			if r.IntN(4) == 0 {
				v = math.Float64frombits(value.StaleNaN)
			}
			starts, vs = append(starts, start), append(vs, v)
			runs.Add(i, start)
		}
		return starts, vs, runs
	}
	requireRuns := func(want []int64, runs Starts) {
		require.True(t, slices.Equal(want, runs.all(len(want))), "%v: %v", want, runs)
		for i := range runs {
			require.True(t, i == 0 && runs[i].start != 0 || i > 0 && runs[i].start != runs[i-1].start && runs[i].from > runs[i-1].from, "%v", runs)
		}
	}
	for range 2000 {
		starts, vs, runs := random(r.IntN(20))
		requireRuns(starts, runs)
		lo := r.IntN(len(starts) + 1)
		hi := lo + r.IntN(len(starts)-lo+1)
		requireRuns(slices.Clone(starts[lo:hi]), runs.Cut(lo, hi, nil))
		more, _, tail := random(r.IntN(20))
		joined := slices.Clone(runs)
		joined.Join(len(starts), tail)
		requireRuns(slices.Concat(starts, more), joined)
		first := r.IntN(len(starts) + 1)
		left := slices.Clone(starts[:first])
		for i := first; i < len(starts); i++ {
			if !value.IsStaleNaN(vs[i]) {
				left = append(left, starts[i])
			}
		}
		runs.DropStale(first, vs[first:])
		require.True(t, slices.Equal(left, runs.all(len(left))), "%v: %v", left, runs)
	}
}
