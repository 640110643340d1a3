package engine

import (
	"bytes"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// rechecked is an engine all of whose answers are compared.
type rechecked struct {
	*Engine
	comparer *compare.Comparer
	reg      *prometheus.Registry
	log      bytes.Buffer
}

func newRechecked(t testing.TB, o Options) *rechecked {
	r := &rechecked{reg: prometheus.NewRegistry()}
	r.comparer = compare.New(func() bool { return false }, slog.New(slog.NewTextHandler(&r.log, nil)), r.reg)
	r.comparer.Set(compare.Limits{Fraction: 1, Concurrency: 1, Timeout: time.Minute})
	t.Cleanup(r.comparer.Close)
	o.Comparer, o.Memory = r.comparer, memory.New(memory.Options{Limit: 1 << 30})
	r.Engine = New(o)
	return r
}

// ask asks a query, has change change the value of its answer, and waits until that is compared.
func (r *rechecked) ask(t *testing.T, st storage.Queryable, ask question, change func(*promql.Result)) {
	t.Helper()
	q, err := ask.on(r.Engine, st)
	require.NoError(t, err, ask)
	res := q.(*query).ExecMatrix(t.Context())
	if change != nil {
		change(res)
	}
	q.Close()
	require.Eventually(t, func() bool { return r.comparer.Running() == 0 }, time.Minute, 100*time.Microsecond)
}

// verdicts are how many comparisons came to a verdict.
func (r *rechecked) verdicts(t *testing.T, of compare.Verdict) float64 {
	return r.counted(t, "promwarp_compare_queries_total", string(of))
}

func (r *rechecked) skipped(t *testing.T, why error) float64 {
	return r.counted(t, "promwarp_compare_skipped_total", why.Error())
}

// counted is a metric's value with a label.
func (r *rechecked) counted(t *testing.T, name, label string) float64 {
	all, err := r.reg.Gather()
	require.NoError(t, err)
	for _, family := range all {
		for _, m := range family.Metric {
			if family.GetName() == name && m.Label[0].GetValue() == label {
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}

// TestRecheckSame: of all queries of a suite, ranges and instants, answers are found to be the same,
// and none that an executor had a part in goes without a verdict.
func TestRecheckSame(t *testing.T) {
	text, err := os.ReadFile("testdata/suites/templates.yaml")
	require.NoError(t, err)
	var suite struct {
		Load      string
		Values    map[string][]string
		Templates []string
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &suite))
	st := loadedBlocks(t, suite.Load)
	opts := plainOpts()
	e := newRechecked(t, Options{Prometheus: opts, Workers: 2, ResultsBytes: 1 << 20, DecodedBytes: 1 << 20})
	asked := 0
	for i, template := range suite.Templates {
		queries := expandTemplate(template, suite.Values)
		ask := question{query: queries[i%len(queries)], start: suiteTimes.start, end: suiteTimes.end, step: suiteTimes.step}
		for _, step := range []int64{ask.step, ask.step, 0} { // the second time of what is remembered
			ask.step = step
			e.ask(t, st, ask, nil)
			asked++
		}
	}
	require.Zero(t, e.verdicts(t, compare.Different), e.log.String())
	require.Zero(t, e.verdicts(t, compare.Undecided), e.log.String())
	accelerated := testutil.ToFloat64(e.metrics.queries.WithLabelValues("whole")) + testutil.ToFloat64(e.metrics.queries.WithLabelValues("part"))
	require.Greater(t, accelerated, 0.9*float64(asked))
	require.Equal(t, accelerated, e.verdicts(t, compare.Same)+e.skipped(t, compare.ErrUnread))
	require.Less(t, e.skipped(t, compare.ErrUnread), 0.05*accelerated, "info alone")
	require.Equal(t, float64(asked), testutil.ToFloat64(e.metrics.queries.WithLabelValues("idle"))+testutil.ToFloat64(e.metrics.queries.WithLabelValues("none"))+accelerated,
		"comparing counts no queries")
	require.Empty(t, e.log.String())
	require.Zero(t, e.opts.Memory.Used(), "all is given back")
}

// TestRecheckFindsDifferences: an executor that answers wrongly is found, with the series, the time
// and both values, whoever answers and however little is wrong.
func TestRecheckFindsDifferences(t *testing.T) {
	sel := settledLines(t, 0, 1, lineOf(0, 60, "__name__", "a", "i", "1"), lineOf(0, 60, "__name__", "a", "i", "2"))
	st := queryable{func() (*selection.Selection, error) { return sel, nil }}
	e := newRechecked(t, Options{Prometheus: plainOpts()})
	ask := question{query: "sum by (i) (rate(a[5m]))", start: 10 * minute, end: 50 * minute, step: minute}
	e.ask(t, st, ask, func(res *promql.Result) {
		res.Value.(*plan.Matrix).Rows[1].Values[7] *= 1 + 1e-15
	})
	require.Equal(t, 1.0, e.verdicts(t, compare.Different))
	require.Contains(t, e.log.String(), `query="sum by (i) (rate(a[5m]))" start=1970-01-01T00:10:00.000Z end=1970-01-01T00:50:00.000Z step=1m0s what=value series="{i=\"2\"}" at=1970-01-01T00:17:00.000Z promwarp=142.857142857143 prometheus=142.85714285714283`)
	require.Contains(t, e.log.String(), `plan="cpu         sum by (i) (rate(a[5m]))`)

	e.ask(t, st, question{query: "sum by (i) (rate(a[5m]))", start: 20 * minute}, func(res *promql.Result) {
		res.Value.(promql.Vector)[0].F = 0
	})
	require.Equal(t, 2.0, e.verdicts(t, compare.Different))

	ask.query = "avg_over_time(a[5m])"
	e.ask(t, st, ask, func(res *promql.Result) { res.Value.(*plan.Matrix).Rows[0].Values[3] *= 1 + 1e-14 })
	require.Equal(t, 1.0, e.verdicts(t, compare.Same), "within the function's bound")
	e.ask(t, st, ask, func(res *promql.Result) { res.Value.(*plan.Matrix).Rows[0].Values[3] *= 1 + 1e-10 })
	require.Equal(t, 3.0, e.verdicts(t, compare.Different))
	ask.query = "avg_over_time(a[5m]) - 100"
	e.ask(t, st, ask, func(res *promql.Result) { res.Value.(*plan.Matrix).Rows[0].Values[3] *= 1 + 1e-10 })
	require.Equal(t, 1.0, e.verdicts(t, compare.Undecided))
	require.Contains(t, e.log.String(), "whose last bits may differ")

	// Rows that whoever answers cuts off are compared all the same.
	ask.query = "rate(a[5m])"
	e.ask(t, st, ask, func(res *promql.Result) {
		m := res.Value.(*plan.Matrix)
		m.Rows[1].Values[0]++
		m.Rows = m.Rows[:1]
	})
	require.Equal(t, 4.0, e.verdicts(t, compare.Different))
}

// TestRecheckSameSamples: what comes between the answer and its comparison is no difference, be it of
// a part that an executor evaluates or of one that is left to Prometheus's engine.
func TestRecheckSameSamples(t *testing.T) {
	var fetches atomic.Int64
	st := queryable{func() (*selection.Selection, error) {
		n := fetches.Add(1)
		return settledLines(t, 0, 1, lineOf(0, 60+n, "__name__", "a", "i", "1"), stretch{
			labels.FromStrings("__name__", "a", "i", "2"), 0, 60, func(ts int64) float64 { return float64(ts * n) },
		}), nil
	}}
	e := newRechecked(t, Options{Prometheus: plainOpts()})
	for _, qs := range []string{
		"sum(a)", "rate(a[5m])", "sum(a) + count(a)", "max_over_time(sum(a)[10m:1m])", "a @ end()", "limitk(1, a) + sum(a)", "absent(a) or sum by (i) (a offset 1m)",
	} {
		for _, step := range []int64{minute, 0} {
			ask := question{query: qs, start: 50 * minute, end: 70 * minute, step: step}
			was := fetches.Load()
			e.ask(t, st, ask, nil)
			need := fetches.Load() - was
			require.Zero(t, e.verdicts(t, compare.Different)+e.verdicts(t, compare.Undecided), "%s: %s", qs, e.log.String())
			require.LessOrEqual(t, need, int64(2), "%s: nothing is fetched to compare", qs)
		}
	}
	require.Equal(t, 14.0, e.verdicts(t, compare.Same))
	ctx := WithMode(t.Context(), Prometheus, false)
	require.NotEqual(t, ranged(t, e, t.Context(), st, "sum(a)"), ranged(t, e, ctx, st, "sum(a)"), "asked anew it would differ")
}

// TestRecheckSkips: what does not follow from the samples is not compared: limits, time, failures,
// and what Prometheus's engine alone evaluates.
func TestRecheckSkips(t *testing.T) {
	st := loadedBlocks(t, `load 15s
  reqs_total{job="j",i="1"} 0+1x240
  reqs_total{job="j",i="2"} 0+2x240
  errs_total{job="j",i="1"} 0+1x240
  errs_total{job="j",i="2"} 0+2x240
`)
	ask := question{query: "sum(rate(reqs_total[5m]))", start: 10 * minute, end: 50 * minute, step: minute}

	e := newRechecked(t, Options{Prometheus: plainOpts()})
	q, err := e.NewRangeQuery(WithMode(t.Context(), Prometheus, false), st, nil, ask.query, time.UnixMilli(ask.start), time.UnixMilli(ask.end), time.Minute)
	require.NoError(t, err)
	require.NoError(t, q.Exec(t.Context()).Err)
	q.Close()
	e.ask(t, st, question{query: "vector(1)", start: minute}, nil)
	require.Zero(t, e.comparer.Running())
	require.Zero(t, e.skipped(t, compare.ErrFailed), "there was nothing to compare")

	boom := queryable{func() (*selection.Selection, error) { return nil, os.ErrPermission }}
	e.ask(t, boom, ask, nil)
	require.Equal(t, 1.0, e.skipped(t, compare.ErrFailed))

	few := plainOpts()
	few.MaxSamples = 30
	e = newRechecked(t, Options{Prometheus: few})
	e.ask(t, st, ask, nil)
	require.Equal(t, 1.0, e.skipped(t, compare.ErrSamples))

	// An error of the evaluation is one on both sides.
	e = newRechecked(t, Options{Prometheus: plainOpts()})
	ask.query = "rate(reqs_total[5m]) * on (job) rate(errs_total[5m])"
	e.ask(t, st, ask, func(res *promql.Result) { require.ErrorContains(t, res.Err, "many-to-many") })
	require.Equal(t, 1.0, e.verdicts(t, compare.Same)+e.verdicts(t, compare.Undecided), e.log.String())

	// A comparison takes only what is left of the memory.
	e = newRechecked(t, Options{Prometheus: plainOpts()})
	ask.query = "rate(reqs_total[5m])"
	e.ask(t, st, ask, func(*promql.Result) { e.opts.Memory.Count(memory.Fetched, 1<<30) })
	require.Equal(t, 1.0, e.skipped(t, compare.ErrMemory))
	require.Equal(t, int64(1<<30), e.opts.Memory.Used())
	require.Zero(t, e.opts.Memory.Refused()["evaluation"])
}
