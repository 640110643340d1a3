package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"
)

// TestHistograms: functions of classic histograms run on cpuexec, with
// Prometheus's answers and notes, for histograms that are sound and that are not.
func TestHistograms(t *testing.T) {
	st := promqltest.LoadedStorage(t, `
load 30s
  sound_bucket{le="1"}      0+1x200
  sound_bucket{le="2"}      0+3x200
  sound_bucket{le="+Inf"}   0+4x200
  falls_bucket{le="1"}      _x40 0+9x160
  falls_bucket{le="2"}      0+3x200
  falls_bucket{le="4"}      0+2x50 5x30 900x100
  falls_bucket{le="+Inf"}   0+10x200
  endless_bucket{le="1"}    0+1x200
  endless_bucket{le="2"}    0+3x200
  twice_bucket{le="1"}      0+1x200
  twice_bucket{le="1.0"}    0+2x200
  twice_bucket{le="Inf"}    0+9x200
  single_bucket{le="+Inf"}  0+9x200
  bad_bucket{le="one"}      0+9x200
  bad_bucket                0+9x200
  bad_bucket{le="1e999"}    0+9x200
  bad_bucket{le="+Inf"}     0+9x200`)
	for _, c := range []struct {
		query string
		note  string // part of a warning or info
	}{
		{`histogram_quantile(0.5, sound_bucket)`, ""},
		{`histogram_quantile(0.5, rate(sound_bucket[5m]))`, ""},
		{`histogram_fraction(0, 1.5, rate(sound_bucket[5m]))`, ""},
		{`histogram_quantile(1.5, sound_bucket)`, `quantile value should be between 0 and 1, got 1.5 (1:20)`},
		{`histogram_quantile(NaN, sound_bucket)`, `got NaN`},
		{`histogram_quantile(0.5, falls_bucket)`, "from buckets 2 to +Inf, with a max diff of 3.6e+02, over -2 samples from 1970-01-01T00:10:00Z to 1970-01-01T00:50:00Z (1:25)"},
		{`histogram_quantile(0.5, sum by (le, __name__) (rate(falls_bucket[5m])))`, "samples from 1970-01-01T00:10:00Z to "},
		{`histogram_quantile(0.5, {__name__=~"f.*_bucket"}) + histogram_quantile(0.4, falls_bucket)`, "samples from 1970-01-01T00:10:00Z to "},
		{`max_over_time(histogram_quantile(0.5, falls_bucket)[5m:17s])`, "samples from 1970-01-01T00:"},
		{`histogram_quantile(0.5, falls_bucket @ 1800)`, "over 1 samples from 1970-01-01T00:10:00Z to "},
		{`histogram_quantile(0.5, endless_bucket)`, ""},
		{`histogram_quantile(0.5, twice_bucket)`, ""},
		{`histogram_quantile(0.5, single_bucket)`, ""},
		{`histogram_quantile(0.5, bad_bucket)`, `is missing or has a malformed value of "one"`},
		{`histogram_fraction(0, 2, bad_bucket)`, `is missing or has a malformed value of "1e999"`},
		{`histogram_quantile(0.5, sum(sound_bucket))`, `is missing or has a malformed value of "" (1:25)`},
		{`sum(histogram_quantile(0.5, {__name__=~"sound_bucket|falls_bucket"}))`, ""},
		{`histogram_quantile(0.5, nothing_bucket)`, ""},
	} {
		t.Run(c.query, func(t *testing.T) {
			for _, delayed := range []bool{false, true} {
				opts := plainOpts()
				opts.EnableDelayedNameRemoval = delayed
				ours := New(Options{Prometheus: opts, Workers: 2})
				opts.Reg = nil
				stock := promql.NewEngine(opts)
				want, got := ranged(t, stock, t.Context(), st, c.query), ranged(t, ours, t.Context(), st, c.query)
				require.Equal(t, summary(want, c.query), summary(got, c.query))
				require.Contains(t, summary(got, c.query), c.note)
				// With delayed name removal nothing has to be declined.
				if delayed || testutil.CollectAndCount(ours.metrics.declined) == 0 {
					require.Positive(t, testutil.ToFloat64(ours.metrics.nodes.WithLabelValues("cpu", "histogram")))
				} else {
					require.Contains(t, c.query, "__name__=~")
				}

				at := func(e promql.QueryEngine) *promql.Result {
					q, err := e.NewInstantQuery(t.Context(), st, nil, c.query, time.UnixMilli(2_000_000))
					require.NoError(t, err)
					return q.Exec(t.Context())
				}
				want, got = at(stock), at(ours)
				require.ElementsMatch(t, strings.Split(summary(want, c.query), "\n"), strings.Split(summary(got, c.query), "\n"))
			}
		})
	}
}

// TestHistogramsOnManyCores: the same answer and notes when a query is large
// enough for its histograms to be spread over goroutines.
func TestHistogramsOnManyCores(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(9, 9)))
	const qs = "histogram_quantile(0.9, lat_bucket)"
	run := func(e promql.QueryEngine) string {
		q, err := e.NewRangeQuery(t.Context(), st, nil, qs, time.UnixMilli(600_000), time.UnixMilli(3_000_000), time.Second)
		require.NoError(t, err)
		return summary(q.Exec(t.Context()), qs)
	}
	want := run(promql.NewEngine(plainOpts()))
	for workers := 1; workers < 6; workers++ {
		require.Equal(t, want, run(New(Options{Prometheus: plainOpts(), Workers: workers})))
	}
}
