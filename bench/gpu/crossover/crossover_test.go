package crossover

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
)

func TestMeasure(t *testing.T) {
	constants := placement.Constants{
		Cores:  placement.Costs{Sample: 10, Window: 10, Slow: 1},
		Device: placement.Costs{Fixed: time.Millisecond, Sample: 0.1, Window: 0.1, Slow: 1},
		Link:   10e9,
	}
	gpus, err := placement.Open(placement.Options{
		Options: device.Options{Require: true, MemoryFraction: 0.1, Library: cudatest.Library(t)}, Constants: &constants,
	})
	require.NoError(t, err)
	defer gpus.Close()
	var last *Result
	o := Options{GPUs: gpus, Most: 40_000, Rounds: 1, Budget: time.Second, Log: t.Logf}
	require.NoError(t, Measure(t.Context(), o, func(r *Result) { last = r }))
	require.Len(t, last.Points, 4)
	require.Equal(t, constants, last.Constants)
	for i, p := range last.Points {
		require.Equal(t, int64(shapes[i][0]*shapes[i][1]), p.Samples)
		require.InDelta(t, p.Samples/4, p.Windows, 1)
		require.Positive(t, p.Cores)
		require.Positive(t, p.NotResident)
		require.Positive(t, p.Resident)
		require.InDelta(t, 1e-5*float64(p.Samples+p.Windows), p.ExpectedCores, 0.001)
		require.Greater(t, p.ExpectedNot, p.ExpectedResident)
		require.Greater(t, p.ExpectedResident, 1.0)
	}
	require.Len(t, last.Table().Rows, 4)
}

func TestShapes(t *testing.T) {
	for i := 1; i < len(shapes); i++ {
		growth := float64(shapes[i][0]*shapes[i][1]) / float64(shapes[i-1][0]*shapes[i-1][1])
		require.InDelta(t, 3.16, growth, 0.1)
	}
}

func TestCrossing(t *testing.T) {
	cores, device := func(p *Point) float64 { return p.Cores }, func(p *Point) float64 { return p.Resident }
	points := []Point{{Samples: 100, Cores: 1, Resident: 100}, {Samples: 10_000, Cores: 100, Resident: 1}}
	require.InDelta(t, 1000, crossing(points, cores, device), 1e-6)
	require.Zero(t, crossing(points[:1], cores, device))
	require.Zero(t, crossing(points[1:], cores, device))
	require.Zero(t, crossing(nil, cores, device))
}

func TestSame(t *testing.T) {
	of := func(vs ...float64) *plan.Matrix { return &plan.Matrix{Rows: []plan.Row{{Values: vs}}} }
	require.NoError(t, same(of(1, 2), of(1, 2)))
	require.ErrorContains(t, same(of(1, 2), of(1, 3)), "value 1 is 2")
	require.ErrorContains(t, same(of(1, 2), of(1)), "2 values")
	require.ErrorContains(t, same(of(1), &plan.Matrix{}), "1 and 0 rows")
}
