package shapes

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

var constants = placement.Constants{
	Cores:  placement.Costs{Sample: 10, Window: 10, Slow: 1},
	Device: placement.Costs{Fixed: time.Millisecond, Sample: 0.1, Window: 0.1, Slow: 1},
	Link:   10e9,
}

func TestMeasure(t *testing.T) {
	gpus, err := placement.Open(placement.Options{
		Options: device.Options{Require: true, MemoryFraction: 0.2, Library: cudatest.Library(t)}, Constants: &constants,
	})
	require.NoError(t, err)
	defer gpus.Close()
	var rows []Row
	o := Options{GPUs: gpus, Series: 120, Samples: 260, Names: regexp.MustCompile(""), Rounds: 1, Budget: time.Second, Log: t.Logf}
	require.NoError(t, Measure(t.Context(), o, func(r []Row) { rows = r }))
	require.Len(t, rows, len(shapes))
	for _, r := range rows {
		require.Positive(t, r.Resident, r.Name)
		require.Positive(t, r.NotResident, r.Name)
		require.Positive(t, r.Cores, r.Name)
		require.Positive(t, r.Points, r.Name)
		require.Len(t, r.Prometheus, 2, r.Name)
		require.Less(t, r.Prometheus[0].Series, r.Prometheus[1].Series)
		require.Positive(t, len(r.OnGPU)+len(r.Left), r.Name)
		require.Equal(t, int64(r.Series*o.Samples), r.Samples, r.Name)
	}
	require.Equal(t, 132, rows[7].Series, "the division reads errors, too")
	require.Len(t, rows[7].OnGPU, 2)
	require.Len(t, Table(rows).Rows, len(shapes))
}

func TestNames(t *testing.T) {
	o := Options{Names: regexp.MustCompile("nothing is called so")}
	require.NoError(t, Measure(t.Context(), o, func([]Row) { t.Fail() }))
}

// TestHistograms: their buckets are cumulative, so that no quantile is repaired.
func TestHistograms(t *testing.T) {
	d := &data{samples: 50}
	d.kept = map[key]*selection.Selection{}
	s, err := d.of(buckets, 530)
	require.NoError(t, err)
	require.Equal(t, 530, s.NumSeries())
	for i := 1; i < s.NumSeries(); i++ {
		require.Negative(t, labels.Compare(s.Labels(i-1), s.Labels(i)), "in order")
	}
	q, err := named{d, 530}.Querier(0, math.MaxInt64)
	require.NoError(t, err)
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", buckets))
	last := map[string]float64{}
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != 0 {
			_, v := it.At()
			last[set.At().Labels().Get("instance")+set.At().Labels().Get("le")] = v
		}
	}
	require.NoError(t, set.Err())
	for k := 1; k < 9; k++ {
		require.LessOrEqual(t, last["host-000007"+les[k]], last["host-000007"+les[k+1]])
	}
	require.Less(t, last["host-0000072.5"], last["host-000007+Inf"])
}

func TestScaled(t *testing.T) {
	require.Equal(t, 10.0+90*2, scaled(Slice{5, 0}, Slice{10, 10}, 100))
	require.Equal(t, 100.0, scaled(Slice{5, 11}, Slice{10, 10}, 100))
}

func TestApart(t *testing.T) {
	of := func(name string, vs ...float64) promql.Series {
		s := promql.Series{Metric: labels.FromStrings("a", name)}
		for i, v := range vs {
			s.Floats = append(s.Floats, promql.FPoint{T: int64(i), F: v})
		}
		return s
	}
	want := promql.Matrix{of("x", 1, math.NaN()), of("y", 2)}
	d, err := apart(want, promql.Matrix{of("y", 2), of("x", 1, math.Float64frombits(math.Float64bits(math.NaN())+1))})
	require.NoError(t, err)
	require.Zero(t, d)
	d, err = apart(want, promql.Matrix{of("x", 1, math.NaN()), of("y", math.Nextafter(2, 3))})
	require.NoError(t, err)
	require.InDelta(t, 2e-16, d, 1e-16)
	for _, got := range []promql.Matrix{
		{of("x", 1, math.NaN())}, {of("x", 1, math.NaN()), of("z", 2)}, {of("x", 1), of("y", 2)}, {of("x", 1, math.NaN()), of("y", 2.1)},
		{of("x", 1, 1), of("y", 2)}, {of("x", 1, math.NaN()), of("y", math.Inf(1))},
	} {
		_, err := apart(want, got)
		require.Error(t, err, got)
	}
}
