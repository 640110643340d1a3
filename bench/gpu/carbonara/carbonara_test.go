package carbonara

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

// small is the experiment in a size for the host driver.
func small(t *testing.T) Options {
	o := Defaults(cudatest.Library(t))
	o.Series, o.Points, o.Sizes, o.Rounds, o.Budget = 40, 7*60, []int{1, 3}, 1, time.Second
	o.Log = t.Logf
	return o
}

func TestMeasure(t *testing.T) {
	o := small(t)
	var all []Comparison
	require.NoError(t, Measure(t.Context(), o, func(c []Comparison) { all = c }))
	require.Len(t, all, 2*len(o.kinds()))
	for _, c := range all {
		ways := []string{Cores, BySeries, BySeriesHot, Summed, SummedHot}
		if c.From == 5 {
			ways = append(ways, V1, V2, V3, V4, V3There, Resampled, ResampledHot, Grouped, GroupedHot)
			require.Equal(t, int64(c.Size*o.Series*o.Points), c.Points)
			require.Equal(t, 4*c.Points, c.Floats)
		} else {
			ways = append(ways, Runs)
			require.Less(t, c.Points, int64(c.Size*o.Series*o.Points))
			require.Equal(t, 8*c.Points, c.Floats)
		}
		require.Len(t, c.Ms, len(ways))
		for _, w := range ways {
			require.Positive(t, c.Ms[w], w)
			require.LessOrEqual(t, c.Worst[w], float32s, w)
		}
	}
	for _, table := range Tables(all) {
		for _, row := range table.Rows {
			require.LessOrEqual(t, len(row), len(table.Head))
		}
	}
}

// TestWorst: a mean that is off, missing or too many shows.
func TestWorst(t *testing.T) {
	p := &points{values: "range", from: 7, to: 13, gaps: true}
	p.make(small(t))
	absences := 0
	got := append([]float64{}, p.mean...)
	for _, v := range got {
		if math.IsNaN(v) {
			absences++
		}
	}
	require.Positive(t, absences, "gaps leave some intervals empty")
	require.Less(t, absences, len(got)/2)
	e, err := worst(p, got)
	require.NoError(t, err)
	require.Zero(t, e)
	got = append(got, got...)
	got[len(p.mean)] += 0.25 // the first mean of the second time is 0 or 0.5
	e, err = worst(p, got)
	require.NoError(t, err)
	require.InDelta(t, 0.25, e, 0.01)
	got[3] = math.NaN()
	got[4] = math.NaN()
	_, err = worst(p, got)
	require.ErrorContains(t, err, "is NaN")
}

// TestTake: a way whose means are off, or that fails, is noted and has no time.
func TestTake(t *testing.T) {
	k := &kind{Options: small(t), Comparison: Comparison{Ms: map[string]float64{}, Worst: map[string]float64{}, Failed: map[string]string{}}}
	fine := func() error { return nil }
	k.take("good", 0.1, fine, func() (float64, error) { return 0.1, nil })
	k.take("off", 0.1, fine, func() (float64, error) { return 0.2, nil })
	k.take("lost", 0.1, func() error { return errors.New("lost") }, nil)
	require.Equal(t, map[string]string{"off": "a mean is off by 0.2", "lost": "lost"}, k.Failed)
	require.Contains(t, k.Ms, "good")
	require.Len(t, k.Ms, 1)
	require.Len(t, k.failures(), 2)
}
