package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func plainOpts() promql.EngineOpts {
	return promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: parser.NewParser(promqltest.TestParserOpts), EnablePerStepStats: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
		Reg:                      prometheus.NewRegistry(),
	}
}

// as is an engine of which all queries are asked as a request says, but for the query.
type as struct {
	*Engine
	with Request
}

func (e as) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	r := e.with
	r.Storage, r.Options, r.Query, r.Start = q, opts, qs, ts
	return e.NewQuery(ctx, r)
}

func (e as) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	r := e.with
	r.Storage, r.Options, r.Query, r.Start, r.End, r.Step = q, opts, qs, start, end, interval
	return e.NewQuery(ctx, r)
}

func ranged(t testing.TB, e promql.QueryEngine, ctx context.Context, q storage.Queryable, qs string) *promql.Result {
	query, err := e.NewRangeQuery(ctx, q, nil, qs, time.UnixMilli(600_000), time.UnixMilli(3_000_000), 30*time.Second)
	require.NoError(t, err)
	return query.Exec(ctx)
}

// TestSampleLimit: the limit on samples held at once strikes exactly where
// Prometheus's strikes.
func TestSampleLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	st := randomStorage(t, r)
	struck, passed := 0, 0
	for _, qs := range []string{
		"reqs_total", "rate(reqs_total[5m])", "sum by (job) (rate(reqs_total[5m]))", "sum(temp)", "max(sum by (job) (temp))",
		"abs(reqs_total)", "quantile by (job) (0.5, temp)", "quantile(0.5, rate(reqs_total[5m]) * 2)", "stddev(temp)", "max_over_time(rate(reqs_total[5m])[10m:1m])", "sum(avg_over_time(temp[10m:30s]) * 2)", "sum(rate(reqs_total[5m]) * 2 > 1)", "-(reqs_total)", "round(reqs_total, 5) / 2", "sum by (job) (temp) * 2", "clamp(sum by (job) (temp), 0, 1)",
		"topk(2, temp)", "topk by (job) (1, rate(reqs_total[5m]))", "bottomk(2, sum by (job) (temp))", "limitk by (job) (2, reqs_total)", "limit_ratio(0.5, reqs_total)", "topk(0, reqs_total)", "topk(1, missing)",
		`count_values("v", changes(temp[5m]))`, `count_values by (job) ("v", sum by (job, instance) (reqs_total)) * 2`, "topk(2, temp) * 2", "max(topk(3, sum by (instance) (temp)))",
		"temp / on (job, instance) rate(reqs_total[5m])", "temp and reqs_total", "(temp > 5) or on (job) reqs_total", "sum by (job) (temp * on (job, instance) group_left () errs_total)", "-(temp > bool ignoring () sum by (job, instance) (temp)) * 2",
		"temp - time()", "temp > scalar(sum(errs_total))", "2 * (time() - 5) ^ scalar(temp) < reqs_total", "clamp(temp, scalar(min(temp)), time() % 7)", "sum(temp) or vector(1)", "sum(temp > 1e9) or vector(time())", "max_over_time((temp - on (job, instance) errs_total)[10m:1m])",
		"histogram_quantile(0.9, lat_bucket)", "sum(histogram_quantile(0.9, sum by (le, job) (rate(lat_bucket[5m]))))", "histogram_fraction(0, 1, rate(lat_bucket[5m]))",
		"absent(odd)", "absent_over_time(odd[1m])", "sum(absent(reqs_total > 1))", "timestamp(temp)", "abs(timestamp(odd))",
		"sort(temp)", "sort_desc(sum by (job) (rate(reqs_total[5m]))) * 2", `label_replace(temp, "x", "$1", "job", "(.*)")`, `sum by (x) (label_join(sort(temp) * 2, "x", "-", "job"))`,
		"increase(odd[20m])", "avg(increase(reqs_total[40m]))", "rate(reqs_total[10m] offset 5m)",
		"rate(reqs_total[5m] smoothed)", "sum(delta(temp[5m] anchored)) * 2", "changes(odd[10m] anchored)", "max_over_time(rate(reqs_total[2m] smoothed)[10m:1m])",
		"temp smoothed", "sum by (job) (temp smoothed)", "abs(odd smoothed) * 2", "topk(2, temp smoothed)",
		"sum by (job) (temp) / (sum by (job) (errs_total) + sum by (job) (temp))", "max(sum by (job) (rate(errs_total[5m]))) - min(sum by (job) (rate(errs_total[5m])))",
		"sum(temp smoothed) or temp or sum(temp smoothed)", "temp unless (sum(temp) - sum(temp))",
	} {
		for limit := 1; limit < 1300; limit += 1 + r.IntN(150) {
			if strikes(t, st, qs, limit, Options{Workers: 2}) {
				struck++
			} else {
				passed++
			}
		}
	}
	require.Greater(t, struck, 100)
	require.Greater(t, passed, 100)
}

// strikes reports whether Prometheus's engine fails at a limit on samples, as an engine with the
// options must, on GPUs if it has some.
func strikes(t *testing.T, st storage.Queryable, qs string, limit int, o Options) bool {
	t.Helper()
	o.Prometheus = plainOpts()
	o.Prometheus.MaxSamples = limit
	e := as{Engine: New(o)}
	if o.GPUs != nil {
		e.with.Mode = GPU
	}
	got := ranged(t, e, t.Context(), st, qs)
	o.Prometheus.Reg = nil
	want := ranged(t, promql.NewEngine(o.Prometheus), t.Context(), st, qs)
	require.Equal(t, want.Err, got.Err, "%s limit %d", qs, limit)
	return want.Err != nil
}

// TestMemoryLimit: a query that needs more memory than it may take fails and says
// so; one that needs less does not, and what it no longer needs is not counted.
func TestMemoryLimit(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 22)))
	for _, qs := range []string{
		"reqs_total", "sum by (job, instance) (rate(reqs_total[5m]))", "quantile by (job) (0.5, temp)",
		"max_over_time(rate(reqs_total[5m])[10m:1m])", "sum by (job) (avg by (job, instance) (temp) * 2)", "reqs_total + 1",
		"topk(2, temp)", "topk by (job) (1, sum by (job, instance) (temp))", "limitk(3, temp)", `count_values("v", temp > bool 1)`,
		"sum by (job, instance) (temp) - sum by (job, instance) (temp)",
	} {
		least := int64(0) // that the query ran with
		for limit := int64(64); limit < 1<<20; limit += limit / 8 {
			res := ranged(t, New(Options{Prometheus: plainOpts(), MaxMemory: limit}), t.Context(), st, qs)
			if res.Err == nil {
				least = limit
				break
			}
			var tooMuch *operator.MemoryError
			require.ErrorAs(t, res.Err, &tooMuch)
			require.Equal(t, limit, tooMuch.Max)
			require.ErrorContains(t, res.Err, "query.max-memory")
		}
		res := ranged(t, New(Options{Prometheus: plainOpts()}), t.Context(), st, qs)
		points := 0
		for _, s := range res.Value.(promql.Matrix) {
			points += len(s.Floats)
		}
		require.Greater(t, least, int64(16*points), qs)
		require.Less(t, least, int64(200*points+20_000), qs)
	}
}

// TestCancelQuery: Cancel ends a running query, from another goroutine.
func TestCancelQuery(t *testing.T) {
	var query promql.Query
	q := queryable{select_: func() (*selection.Selection, error) {
		var wg sync.WaitGroup
		wg.Go(query.Cancel)
		wg.Wait()
		return selection.Empty(), nil
	}}
	var err error
	query, err = New(Options{Prometheus: plainOpts()}).NewInstantQuery(t.Context(), q, nil, "sum(m)", time.UnixMilli(1000))
	require.NoError(t, err)
	require.ErrorAs(t, query.Exec(t.Context()).Err, new(promql.ErrQueryCanceled))
}

// queryable answers every selector with one selection.
type queryable struct {
	select_ func() (*selection.Selection, error)
}

func (q queryable) Querier(int64, int64) (storage.Querier, error) { return querierOf{q}, nil }

// named answers a selector with the selection of its metric name.
type named map[string]*selection.Selection

func (n named) Querier(int64, int64) (storage.Querier, error) { return namedQuerier{names: n}, nil }

type namedQuerier struct {
	querierOf
	names named
}

func (q namedQuerier) of(ms []*labels.Matcher) queryable {
	for _, m := range ms {
		if m.Name == "__name__" {
			return queryable{func() (*selection.Selection, error) { return q.names[m.Value], nil }}
		}
	}
	return queryable{func() (*selection.Selection, error) { return selection.Empty(), nil }}
}

func (q namedQuerier) SelectChunks(ctx context.Context, h *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return querierOf{q.of(ms)}.SelectChunks(ctx, h, ms...)
}

func (q namedQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return querierOf{q.of(ms)}.Select(ctx, sorted, h, ms...)
}

type querierOf struct{ q queryable }

func (q querierOf) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	s, err := q.q.select_()
	return s, nil, err
}

func (q querierOf) Select(context.Context, bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
	s, err := q.q.select_()
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return s.SeriesSet(0, 1<<60, nil)
}

func (querierOf) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querierOf) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (querierOf) Close() error { return nil }

// TestStorageError: the storage's error reads as it does in Prometheus.
func TestStorageError(t *testing.T) {
	boom := errors.New("boom")
	q := queryable{select_: func() (*selection.Selection, error) { return nil, boom }}
	for _, qs := range []string{"m", "sum(rate(m_total[5m]))", "1 + sum(m)"} {
		want := ranged(t, promql.NewEngine(plainOpts()), t.Context(), q, qs)
		got := ranged(t, New(Options{Prometheus: plainOpts()}), t.Context(), q, qs)
		require.ErrorIs(t, got.Err, boom)
		require.EqualError(t, got.Err, want.Err.Error())
	}
}

func oneChunk(t testing.TB, e chunkenc.Encoding, b []byte) *selection.Selection {
	s := selection.NewBuilder(0)
	s.Series(labels.FromStrings("__name__", "m_total", "job", "j"))
	require.NoError(t, s.Chunk(e, 1000, 900_000, b))
	sel, err := s.Finish()
	require.NoError(t, err)
	return sel
}

// TestCorruptChunk: the query fails naming the series, and the keeper of the
// selection is told to forget it.
func TestCorruptChunk(t *testing.T) {
	dropped := 0
	q := queryable{select_: func() (*selection.Selection, error) {
		sel := oneChunk(t, chunkenc.EncXOR, []byte{0, 50, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
		sel.OnDiscard = func() { dropped++ }
		return sel, nil
	}}
	for i, qs := range []string{"m_total", "sum(rate(m_total[5m]))", "abs(delta(m_total[5m]))"} {
		res := ranged(t, New(Options{Prometheus: plainOpts()}), t.Context(), q, qs)
		require.ErrorAs(t, res.Err, new(*selection.CorruptError), qs)
		require.ErrorContains(t, res.Err, `{__name__="m_total", job="j"}`)
		require.Equal(t, i+1, dropped)
	}
}

// TestForcedMode: what a forced executor could not take is a warning, or with
// strict an error, and Prometheus's mode plans nothing.
func TestForcedMode(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	e := New(Options{Prometheus: plainOpts()})
	warnings := func(mode Mode, strict bool, qs string) ([]string, error) {
		res := ranged(t, as{e, Request{Mode: mode, Strict: strict}}, t.Context(), st, qs)
		w, _ := res.Warnings.AsStrings(qs, 0, 0)
		return w, res.Err
	}
	const odd = "timestamp(temp @ 600.000 offset 5m)"
	const reason = "timestamp of a selector with @ and an offset is evaluated by Prometheus's engine, which leaves the offset out"
	w, err := warnings(CPU, true, "sum(rate(reqs_total[5m]))")
	require.NoError(t, err)
	require.Empty(t, w)
	w, err = warnings(CPU, false, odd)
	require.NoError(t, err)
	require.Len(t, w, 1)
	require.Contains(t, w[0], "evaluated by Prometheus's engine: "+odd+": "+reason)
	w, err = warnings(Auto, false, odd)
	require.NoError(t, err)
	require.Empty(t, w)
	_, err = warnings(CPU, true, odd)
	require.ErrorAs(t, err, new(*NotTakenError))

	before := testutil.ToFloat64(e.metrics.nodes.WithLabelValues("cpu", "window"))
	_, err = warnings(Prometheus, false, "sum(rate(reqs_total[5m]))")
	require.NoError(t, err)
	require.Equal(t, before, testutil.ToFloat64(e.metrics.nodes.WithLabelValues("cpu", "window")))
}

func TestExplain(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	e := New(Options{Prometheus: plainOpts()})
	start, end := time.UnixMilli(600_000), time.UnixMilli(3_000_000)
	x, err := e.Explain(t.Context(), Request{Storage: st, Query: "histogram_fraction(0, 1, histogram_quantile(0.9, lat_bucket)) / 2", Start: start, End: end, Step: time.Minute}, true)
	require.NoError(t, err)
	tree := x.Tree()
	const reason = "a histogram function over another is evaluated by Prometheus's engine"
	require.Contains(t, tree, "prometheus  histogram_fraction(0, 1, histogram_quantile(0.9, lat_bucket)) / 2  -- the whole query stays with Prometheus's engine: "+reason)
	require.Contains(t, tree, "  prometheus  histogram_fraction(0, 1, histogram_quantile(0.9, lat_bucket))  -- "+reason)
	require.Contains(t, tree, "lat_bucket  -- the whole query stays with Prometheus's engine: "+reason)

	x, err = e.Explain(t.Context(), Request{Storage: st, Query: "abs(histogram_quantile(0.9, lat_bucket))", Start: start, End: end, Step: time.Minute}, true)
	require.NoError(t, err)
	require.Contains(t, x.Tree(), "cpu         abs(histogram_quantile(0.9, lat_bucket))  [34 series, ")
	require.True(t, x.Analyzed)
	require.Equal(t, plan.OnCPU, x.Root.Executor)
	require.Positive(t, x.Root.Work.Samples)
	require.Equal(t, 41, x.Root.Steps)

	x, err = e.Explain(t.Context(), Request{Storage: st, Query: "reqs_total", Start: start, End: start}, false)
	require.NoError(t, err)
	require.Equal(t, plan.OnCPU, x.Root.Executor)
	require.Nil(t, x.Root.Work)
	_, err = e.Explain(t.Context(), Request{Storage: st, Query: "sum(", Start: start, End: start}, false)
	require.Error(t, err)
}

// crowdStorage has 300 series of three jobs of unequal sizes, with enough samples that all workers
// take part, with gaps, series that begin late, and values whose sum depends on their order.
func crowdStorage(t testing.TB, r *rand.Rand) storage.Storage {
	st := teststorage.New(t)
	app := st.AppenderV2(context.Background())
	for i := range 300 {
		job := "a"
		switch {
		case i%10 == 3:
			job = "c"
		case i%4 == 1:
			job = "b"
		}
		at := labels.FromStrings("__name__", "m", "instance", fmt.Sprintf("i%03d", i), "job", job)
		first, v := int64(r.IntN(3)*r.IntN(40)), 0.0
		for k := first; k < 200; k++ {
			if r.IntN(50) == 0 {
				k += int64(r.IntN(30))
			}
			v += r.ExpFloat64() * math.Exp(float64(r.IntN(60)-30))
			_, err := app.Append(0, at, 0, k*15_000+int64(i%7), v, nil, nil, storage.AppendV2Options{})
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	return st
}

// TestAnyNumberOfCores: the bits of Prometheus's engine whatever the number of goroutines, and under
// concurrent use, also where workers add to parts of a group's steps at once.
func TestAnyNumberOfCores(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	for _, c := range []struct {
		st      storage.Storage
		step    time.Duration
		queries []string
	}{
		{randomStorage(t, rand.New(rand.NewPCG(5, 5))), 30 * time.Second, []string{
			"sum(rate(reqs_total[5m]))", "avg by (job) (temp)", "sum without (instance) (temp)", "quantile by (job) (0.5, temp)", "sum(abs(temp) * 2)",
			"topk by (job) (2, temp)", "bottomk(3, sum by (instance, job) (temp))", "limitk(2, temp)", `count_values("v", changes(temp[5m]))`,
			"sum by (job) (temp / on (job, instance) reqs_total)", "sum(temp unless reqs_total > 50)", "sum(temp * scalar(sum(temp)))",
		}},
		{crowdStorage(t, rand.New(rand.NewPCG(seed, 6))), 2 * time.Second, []string{
			"sum(rate(m[5m]))", "sum by (job) (increase(m[1m]))", "avg(m)", "avg by (job) (m)", "max by (job) (m)", "min(m)", "count by (job) (m > 1)", "group(m)",
			"sum by (job) (m) / on () group_left () sum(m)",
		}},
		{randomStorage(t, rand.New(rand.NewPCG(9, 9))), time.Second, []string{"histogram_quantile(0.9, lat_bucket)"}},
	} {
		ask := func(e promql.QueryEngine, qs string) string {
			query, err := e.NewRangeQuery(context.Background(), c.st, nil, qs, time.UnixMilli(600_000), time.UnixMilli(3_000_000), c.step)
			if err != nil {
				return err.Error()
			}
			defer query.Close()
			return summary(query.Exec(context.Background()), qs)
		}
		for _, qs := range c.queries {
			want := ask(promql.NewEngine(plainOpts()), qs)
			for _, workers := range []int{2, 3, 7, 16} {
				e := New(Options{Prometheus: plainOpts(), Workers: workers})
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						if got := ask(e, qs); got != want {
							t.Errorf("%s with %d workers differs", qs, workers)
						}
					})
				}
				wg.Wait()
			}
		}
	}
}

// TestStatementStays: after a query has run, its statement is the query's.
func TestStatementStays(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(5, 5)))
	e := New(Options{Prometheus: plainOpts()})
	q, err := e.NewInstantQuery(t.Context(), st, nil, "sum(temp) + topk(1, rate(reqs_total[5m]))", time.UnixMilli(600_000))
	require.NoError(t, err)
	before := q.Statement().String()
	require.NoError(t, q.Exec(t.Context()).Err)
	require.Equal(t, before, q.Statement().String())
}

// declined is the number of queries declined after seeing native histograms.
func declined(e *Engine) float64 {
	return testutil.ToFloat64(e.metrics.declined.WithLabelValues("it selects native histograms, which are not on an executor yet"))
}

// In all tests of this package values change as soon as they are released, so that an
// answer that still looks at them is a wrong one.
func init() {
	spoil = func(m *plan.Matrix) {
		for _, row := range m.Rows {
			for k := range row.Values {
				row.Values[k] = math.Float64frombits(0xDEAD_BEEF_0BAD_CAFE)
			}
		}
	}
}

// TestMemoryOfPrometheus: what Prometheus's engine holds is charged as what executors hold
// is: a query of a large result fails on every executor, and a small one does not.
func TestMemoryOfPrometheus(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 23)))
	stock := Request{Mode: Prometheus}
	for _, qs := range []string{
		"reqs_total", "reqs_total + 1", "rate(reqs_total[5m])", "max_over_time(rate(reqs_total[5m])[10m:1m])", `{__name__=~"reqs.*"} * 1`,
	} {
		want := ranged(t, as{New(Options{Prometheus: plainOpts()}), stock}, t.Context(), st, qs)
		require.NoError(t, want.Err)
		points := 0
		for _, s := range want.Value.(promql.Matrix) {
			points += len(s.Floats) + len(s.Histograms)
		}
		res := ranged(t, as{New(Options{Prometheus: plainOpts(), MaxMemory: int64(16 * points)}), stock}, t.Context(), st, qs)
		require.ErrorAs(t, res.Err, new(*operator.MemoryError), qs)
		require.ErrorContains(t, res.Err, "query needs more than", "as it is, without a word about the storage")
		res = ranged(t, as{New(Options{Prometheus: plainOpts(), MaxMemory: int64(400*points + 1<<20)}), stock}, t.Context(), st, qs)
		require.Equal(t, want, res, qs)
	}
}

// TestMemoryOfSubqueries: subqueries that read no samples, or many of one series, are
// charged for what they make.
func TestMemoryOfSubqueries(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 24)))
	e := New(Options{Prometheus: plainOpts(), MaxMemory: 1 << 20})
	for _, qs := range []string{
		"count_over_time(vector(time())[1y:1s])", "sum_over_time((vector(1) + time())[60d:])", `max_over_time((count_over_time(vector(1)[1d:1m]))[30d:1m])`,
		`count_over_time((count({__name__=~"reqs.*"}) or vector(1))[10d:1s])`,
	} {
		start := time.Now()
		q, err := e.NewInstantQuery(t.Context(), st, nil, qs, time.Unix(3600, 0))
		require.NoError(t, err)
		res := q.Exec(t.Context())
		require.ErrorAs(t, res.Err, new(*operator.MemoryError), qs)
		require.Less(t, time.Since(start), 20*time.Second)
		q.Close()
	}
	q, err := e.NewInstantQuery(t.Context(), st, nil, "count_over_time(vector(1)[1h:1s])", time.Unix(3600, 0))
	require.NoError(t, err)
	require.NoError(t, q.Exec(t.Context()).Err)
	q.Close()
}

// TestMemoryOfLabels: labels that a query makes, which double with each function or are as long as the
// query says, are charged before they are made, and those of its result until it is closed.
func TestMemoryOfLabels(t *testing.T) {
	st := crowdStorage(t, rand.New(rand.NewPCG(21, 27)))
	nested := func(n int, function, arguments string) string {
		return strings.Repeat(function+"(", n) + "m" + strings.Repeat(", "+arguments+")", n)
	}
	long := strings.Repeat("y", 200_000)
	double := `"instance", "$1$1", "instance", "(.*)"`
	for _, qs := range []string{
		nested(30, "label_replace", double), "sum by (job) (" + nested(30, "label_replace", double) + ")",
		nested(30, "label_join", `"instance", "", "instance", "instance"`),
		nested(1, "label_replace", fmt.Sprintf(`"a", "%s", "", ""`, long)), nested(1, "label_replace", fmt.Sprintf(`"%s", "a", "", ""`, long)),
		fmt.Sprintf(`count(count_values("%s", m))`, long), fmt.Sprintf(`count(count_values("%s", topk(3, m)))`, long),
	} {
		for _, mode := range []Mode{CPU, Prometheus} {
			e := as{New(Options{Prometheus: plainOpts(), MaxMemory: 16 << 20}), Request{Mode: mode}}
			require.ErrorAs(t, ranged(t, e, t.Context(), st, qs).Err, new(*operator.MemoryError), "%.100s", qs)
		}
	}
	for _, mode := range []Mode{CPU, Prometheus} {
		pool := memory.New(memory.Options{Limit: 1 << 30})
		e := as{New(Options{Prometheus: plainOpts(), Memory: pool}), Request{Mode: mode}}
		for _, end := range []time.Time{time.Unix(600, 0), time.Unix(1200, 0)} {
			q, err := e.NewRangeQuery(t.Context(), st, nil, nested(10, "label_replace", double), time.Unix(600, 0), end, time.Minute)
			require.NoError(t, err)
			require.NoError(t, q.Exec(t.Context()).Err)
			require.Greater(t, pool.Used(), int64(300*4<<10))
			q.Close()
			require.Zero(t, pool.Used())
		}
	}
}

// TestMemoryOfSelectors: a query of many selectors is charged for them before any is read, and gives
// that back when it has its result.
func TestMemoryOfSelectors(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 26)))
	pool := memory.New(memory.Options{Limit: 16 << 20, Wait: time.Millisecond})
	e := New(Options{Prometheus: plainOpts(), Memory: pool})
	for _, mode := range []Mode{Prometheus, CPU} {
		for qs, refused := range map[string]bool{
			strings.Repeat("absent_metric or ", 900) + "absent_metric":               true,
			"absent_metric{" + strings.Repeat(`a!="b",`, 199) + "} or absent_metric": false,
			strings.Repeat("absent_metric or ", 300) + "absent_metric":               false,
		} {
			q, err := e.NewQuery(t.Context(), Request{Storage: st, Query: qs, Start: time.Unix(3600, 0), Mode: mode})
			require.NoError(t, err)
			err = q.Exec(t.Context()).Err
			if refused {
				require.ErrorAs(t, err, new(*memory.TooLargeError), mode)
			} else {
				require.NoError(t, err, mode)
				require.Less(t, pool.Used(), int64(1<<20), "once there is a result")
			}
			q.Close()
			require.Zero(t, pool.Used())
		}
	}
}

// TestMemoryOfProcess: queries hold memory of the process until they are closed, and one
// that finds none is told to come back.
func TestMemoryOfProcess(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 25)))
	pool := memory.New(memory.Options{Limit: 5 << 20, Wait: time.Millisecond})
	e := New(Options{Prometheus: plainOpts(), Memory: pool})
	for _, mode := range []Mode{Prometheus, CPU} {
		var open []promql.Query
		var refused error
		for refused == nil && len(open) < 100 {
			q, err := e.NewQuery(t.Context(), Request{Storage: st, Query: "reqs_total * 2", Start: time.Unix(0, 0), End: time.Unix(7200, 0), Step: 10 * time.Second, Mode: mode})
			require.NoError(t, err)
			open = append(open, q)
			refused = q.Exec(t.Context()).Err
		}
		require.ErrorAs(t, refused, new(*memory.BusyError), fmt.Sprint(mode))
		require.Greater(t, len(open), 2)
		for _, q := range open {
			q.Close()
		}
		require.Zero(t, pool.Used())
	}
}
