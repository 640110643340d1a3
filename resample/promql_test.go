package resample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// functions are the aggregates that PromQL has, too, and how far their values may be apart.
var functions = map[string]struct {
	query  string
	within float64
}{
	"count": {"count_over_time(m[%s])", 0}, "sum": {"sum_over_time(m[%s])", 0}, "mean": {"avg_over_time(m[%s])", 0},
	"min": {"min_over_time(m[%s])", 0}, "max": {"max_over_time(m[%s])", 0}, "last": {"last_over_time(m[%s])", 0},
	"first": {"first_over_time(m[%s])", 0}, "median": {"quantile_over_time(0.5, m[%s])", 0}, "95pct": {"quantile_over_time(0.95, m[%s])", 0},
	// Prometheus's own variance of large numbers that are close to each other has errors of this size.
	"std": {"stddev_over_time(m[%s])", 1e-5}, "var": {"stdvar_over_time(m[%s])", 1e-5},
}

// TestPromQL compares with Prometheus's engine: buckets closed on the right, and labelled there,
// are a range query's windows.
func TestPromQL(t *testing.T) {
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e8, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true})})
	defer func() { require.NoError(t, e.Close()) }()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		every, period := 60*(1+r.Int64N(5)), 20*(1+r.Int64N(30))
		start := 1_700_000_000/every*every + every*r.Int64N(1000)
		end := start + every*(5+r.Int64N(30))
		zeros := randomSeries(r, start*1000, end*1000, true)
		for i := range zeros[0].vs {
			zeros[0].vs[i] = []float64{0, math.Copysign(0, -1), 1}[r.IntN(3)]
		}
		huge, ordinary := store(t, zeros), store(t, randomSeries(r, start*1000, end*1000, false))
		for name, f := range functions {
			st := huge
			if f.within > 0 { // the squares of the largest numbers are no numbers
				st = ordinary
			}
			p, err := planned(form(fmt.Sprintf("metric=m&start=%d&end=%d&every=%ds&period=%ds&closed=right&label=right&aggregates=%s", start, end, every, period, name)))
			require.NoError(t, err)
			got, err := New(Options{Workers: 2}).Run(t.Context(), st, p)
			require.NoError(t, err)
			q, err := e.NewRangeQuery(t.Context(), st, nil, fmt.Sprintf(f.query, fmt.Sprintf("%ds", period)), time.Unix(start+every, 0), time.Unix(end, 0), time.Duration(every)*time.Second)
			require.NoError(t, err)
			res := q.Exec(t.Context())
			m, err := res.Matrix()
			require.NoError(t, err)
			require.Equal(t, len(m), len(got.Series), "seed %d: %s", seed, name)
			byInstance := map[string]Row{}
			for _, s := range got.Series {
				byInstance[s.Labels.Get("i")] = s.Rows[0]
			}
			for _, s := range m {
				row := byInstance[s.Metric.Get("i")]
				require.Equal(t, len(s.Floats), len(row.Values), "seed %d: %s", seed, name)
				for k, want := range s.Floats {
					require.Equal(t, want.T, p.Grid.Labels[row.Buckets[k]])
					require.True(t, f.within > 0 || want.F != 0 || math.Signbit(want.F) == math.Signbit(row.Values[k]), "seed %d: the other zero for %s of %s", seed, name, s.Metric)
					require.True(t, alike(want.F, row.Values[k], f.within), "seed %d: %s of %s at %d: %v is not %v", seed, name, s.Metric, want.T, row.Values[k], want.F)
				}
			}
			q.Close()
			got.Release()
		}
	}
}
