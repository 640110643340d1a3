package gpuexec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// promText is a window function in PromQL, with the parameters that aggregation
// gives it.
func promText(f string, width int64) string {
	selector := fmt.Sprintf("m_total[%dms]", width)
	switch {
	case f == window.Last.Name:
		return "m_total"
	case f == window.Timestamp.Name:
		return "timestamp(m_total)"
	case f == window.Present.Name: // what is below it
		return "present_over_time(" + selector + ")"
	case window.Named(f).Param == plan.ParamBefore:
		return f + "(0.3, " + selector + ")"
	case window.Named(f).Param == plan.ParamAfter:
		return f + "(" + selector + ", 0.3)"
	case window.Named(f).Param == plan.TwoParamsAfter:
		return f + "(" + selector + ", 0.3, 0.6)"
	}
	return f + "(" + selector + ")"
}

// TestAgainstPrometheus compares every function with Prometheus's engine over the
// same storage.
func TestAgainstPrometheus(t *testing.T) {
	r := rand.New(rand.NewPCG(95, 96))
	st := teststorage.New(t)
	app := st.Appender(t.Context())
	for i := range 40 {
		at, v := r.Int64N(600_000), 0.0
		for range []int{1, 2, 30, 500}[r.IntN(4)] {
			if at += 15_000; r.IntN(40) == 0 {
				at += r.Int64N(1_200_000)
			}
			v = randomValue(r, i%6, v)
			sample := v
			if r.IntN(60) == 0 {
				sample = math.Float64frombits(value.StaleNaN)
			}
			_, err := app.Append(0, labels.FromStrings("__name__", "m_total", "instance", fmt.Sprintf("%02d", i)), at, sample)
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	q, err := st.ChunkQuerier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m_total"))
	sel, _, err := selection.FromChunkSeriesSet(t.Context(), set, 0)
	require.NoError(t, err)
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e8, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, EnablePerStepStats: true,
		Parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true}),
	})
	defer func(most float64) { sortedMost = most }(sortedMost)
	sortedMost = math.Inf(1)
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	for _, f := range testFunctions {
		for _, width := range []int64{60_000, 300_000, 960_001, 3_600_000} {
			grid := plan.Grid{Start: 1_000_000 + r.Int64N(100_000), Interval: 60_000, Steps: 90}
			opts := promql.NewPrometheusQueryOpts(true, 0)
			query, err := engine.NewRangeQuery(t.Context(), st, opts, "max by (instance) ("+promText(f, width)+")",
				time.UnixMilli(grid.Start), time.UnixMilli(grid.End()), time.Minute)
			require.NoError(t, err)
			lookback := width
			if f == window.Last.Name || f == window.Timestamp.Name {
				lookback = 300_000
			}
			m, err := x.Run(t.Context(), jobOver(aggregation("max", f, lookback, 0, nil, []string{"instance"}, false), grid, sel))
			if f == "quantile_over_time" && err != nil {
				require.EqualError(t, err, mixedZeros)
				continue
			}
			require.NoError(t, err)
			want := query.Exec(t.Context())
			require.NoError(t, want.Err)
			// Only a mean that is put together from panes has bits of its own.
			_, panes := launch.PanesOf(launch.Steps{Interval: grid.Interval, Width: width, Count: uint32(grid.Steps)})
			exact := f != "avg_over_time" || !panes
			samePoints(t, want.Value.(promql.Matrix), m, exact, promText(f, width))
			require.Equal(t, query.Stats().Samples.TotalSamplesPerStep, m.SamplesAtStep, promText(f, width))
			query.Close()
		}
	}
}

// samePoints compares with an answer of Prometheus's engine.
func samePoints(t *testing.T, want promql.Matrix, got *plan.Matrix, exact bool, what string) {
	rows := map[string]plan.Row{}
	for _, row := range got.Rows {
		rows[row.Labels.String()] = row
	}
	require.Len(t, rows, len(want), what)
	for _, w := range want {
		row := rows[w.Metric.String()]
		require.Len(t, row.Values, len(w.Floats), "%s %s", what, w.Metric)
		k := 0
		for _, run := range row.Runs {
			for step := run.First; step < run.First+run.Len; step++ {
				p, v := w.Floats[k], row.Values[k]
				require.Equal(t, p.T, got.Grid.At(int(step)), "%s %s", what, w.Metric)
				if bitsOf(p.F) != bitsOf(v) && (exact || math.Abs(p.F-v) > 1e-12*math.Abs(p.F)) {
					t.Fatalf("%s: %s at %d: %v, not %v", what, w.Metric, p.T, v, p.F)
				}
				k++
			}
		}
	}
}
