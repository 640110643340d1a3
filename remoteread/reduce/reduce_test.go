package reduce

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// twoJobs are two series of each of two jobs, with a sample every 15 s for an hour.
func twoJobs(t testing.TB, more ...func(*selection.Builder)) *selection.Selection {
	b := selection.NewBuilder(0)
	for i, name := range []string{"a", "b", "c", "d"} {
		b.Series(labels.FromStrings("__name__", "x", "instance", name, "job", []string{"j1", "j2"}[i%2]))
		for at := int64(0); at < hour; at += 15 * second {
			require.NoError(t, b.Floats([]int64{at}, []float64{float64(at) + 0.1*float64(i)}))
		}
	}
	for _, add := range more {
		add(b)
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// sumByJob asks for sum by (job) (x) every ten minutes.
func sumByJob() serve.Query {
	h := &storage.SelectHints{Start: 10*minute - 5*minute + 1, End: 50 * minute, Step: 10 * minute, Func: "sum", By: true, Grouping: []string{"job"}}
	return serve.Query{
		MinT: h.Start, MaxT: h.End, Start: h.Start, End: h.End, Hints: h, Reader: newer,
		Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "x")},
	}
}

func newReducer(maxSamples int) (*Reducer, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: maxSamples, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	return New(Options{Lookback: 5 * time.Minute, Engine: e, Registerer: reg}), reg
}

// TestAggregate: what is sent in place of groups, and when it is not.
func TestAggregate(t *testing.T) {
	histogram := func(b *selection.Builder) {
		b.Series(labels.FromStrings("__name__", "x", "instance", "h"))
		data := selectiontest.Encode(t, chunkenc.EncHistogram, []int64{19 * minute}, selectiontest.Rising)
		require.NoError(t, b.Chunk(chunkenc.EncHistogram, 19*minute, 19*minute, data))
	}
	joining := func(b *selection.Builder) {
		b.Series(labels.FromStrings("__name__", "x", "instance", "d", "job", "j2", "cluster", "eu"))
		require.NoError(t, b.Floats([]int64{19 * minute}, []float64{1}))
	}
	b := selection.NewBuilder(0)
	for at, l := range []labels.Labels{labels.FromStrings("A", "1", "B", "2"), labels.FromStrings("A", "2", "B", "1")} {
		b.Series(l)
		require.NoError(t, b.Floats([]int64{20*minute - int64(at)}, []float64{1}))
	}
	disordered, err := b.Finish()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change     func(*serve.Query)
		sel        *selection.Selection
		maxSamples int
		sent, why  string
		series     int
	}{
		"sum":                    {sent: "aggregated", series: 2},
		"avg without":            {change: func(q *serve.Query) { q.Hints.Func, q.Hints.By, q.Hints.Grouping = "avg", false, []string{"instance"} }, sent: "aggregated", series: 2},
		"count":                  {change: func(q *serve.Query) { q.Hints.Func = "count" }, sent: "aggregated", series: 4},
		"max, release 2":         {change: func(q *serve.Query) { q.Reader, q.Hints.Func = older, "max"; q.Hints.Start--; q.Start-- }, sent: "aggregated", series: 2},
		"sum, release 2":         {change: func(q *serve.Query) { q.Reader = older; q.Hints.Start--; q.Start-- }, sent: "thinned", why: "sums of another release", series: 4},
		"sum, release 3.4":       {change: func(q *serve.Query) { q.Reader.Minor = 4 }, sent: "thinned", why: "sums of another release", series: 4},
		"stddev":                 {change: func(q *serve.Query) { q.Hints.Func = "stddev" }, sent: "thinned", why: "aggregation without form", series: 4},
		"sum of what is between": {change: func(q *serve.Query) { q.Hints.By, q.Hints.Grouping = false, nil }, sent: "thinned", why: "no aggregation", series: 4},
		"rate":                   {change: func(q *serve.Query) { q.Hints.Func, q.Hints.Range = "rate", minute; q.Hints.Start += 4 * minute }, sent: "thinned", why: "no aggregation", series: 4},
		"rate of most samples": {change: func(q *serve.Query) {
			q.Hints.Func, q.Hints.Range = "rate", 6*minute
			q.Hints.Start -= minute
			q.Start -= minute
		}, sent: "thinned", why: "no aggregation", series: 4},
		"of which some are newer":  {change: func(q *serve.Query) { q.Hints.Func, q.Hints.Range = "rate", 6*minute; q.Hints.Start -= minute }, sent: "all", why: "no aggregation", series: 4},
		"rate at as many steps":    {change: func(q *serve.Query) { q.Hints.Func, q.Hints.Range, q.Hints.Step = "rate", 5*minute, minute }, sent: "all", why: "no aggregation", series: 4},
		"newer data":               {change: func(q *serve.Query) { q.End-- }, sent: "thinned", why: "the reader has newer data", series: 4},
		"series that become one":   {change: func(q *serve.Query) { q.External = labels.FromStrings("cluster", "eu") }, sel: twoJobs(t, joining), sent: "all", why: "external labels", series: 5},
		"not aligned":              {change: func(q *serve.Query) { q.Hints.Start++ }, sent: "all", why: "grid not aligned", series: 4},
		"external labels":          {change: func(q *serve.Query) { q.External = labels.FromStrings("cluster", "eu") }, sent: "aggregated", series: 2},
		"external labels of its":   {change: func(q *serve.Query) { q.External = labels.FromStrings("job", "j3") }, sent: "thinned", why: "external labels", series: 4},
		"native histograms":        {sel: twoJobs(t, histogram), sent: "thinned", why: "native histograms", series: 5},
		"more than the engine may": {maxSamples: 1, sent: "thinned", why: "not evaluated", series: 4},
		"disordered":               {change: func(q *serve.Query) { q.Hints.By, q.Hints.Grouping = false, []string{"A"} }, sel: disordered, sent: "thinned", why: "order of groups", series: 2},
	} {
		q := sumByJob()
		if c.change != nil {
			c.change(&q)
		}
		if c.sel == nil {
			c.sel = twoJobs(t)
		}
		if c.maxSamples == 0 {
			c.maxSamples = 1e6
		}
		r, reg := newReducer(c.maxSamples)
		got, release, err := r.Aggregate(t.Context(), q, c.sel)
		require.NoError(t, err, name)
		require.Equal(t, c.series, got.NumSeries(), name)
		release()
		require.Equal(t, 1.0, testutil.ToFloat64(r.reduced.WithLabelValues("aggregate", c.sent, c.why)), name)
		n, err := testutil.GatherAndCount(reg)
		require.NoError(t, err)
		require.Equal(t, 1, n, name)
	}
}

// TestOnGrid: of a range that lies between two evaluations, a reader without other samples gets one
// at the evaluation, with the value of all.
func TestOnGrid(t *testing.T) {
	sel := twoJobs(t)
	for function, first := range map[string]float64{"max_over_time": 600_000, "min_over_time": 315_000, "last_over_time": 600_000, "sum_over_time": 20 * 457_500, "avg_over_time": 457_500} {
		q := sumByJob()
		q.Hints.Func, q.Hints.Range = function, 5*minute
		r, _ := newReducer(1e6)
		got, release, err := r.Aggregate(t.Context(), q, sel)
		require.NoError(t, err)
		defer release()
		require.Equal(t, 4, got.NumSeries(), function)
		require.Equal(t, int64(4*5), got.NumSamples(), function)
		it := got.Decode(0, got.Chunks(0), q.MinT, q.MaxT, nil)
		for at := 10 * minute; at <= 50*minute; at += 10 * minute {
			require.Equal(t, chunkenc.ValFloat, it.Next(), function)
			when, v := it.At()
			require.Equal(t, at, when, function)
			if at == 10*minute {
				require.Equal(t, first, v, function)
			}
		}
		q.Reader.Minor = 4
		got, release, err = r.Aggregate(t.Context(), q, sel)
		require.NoError(t, err)
		defer release()
		require.Equal(t, function == "sum_over_time" || function == "avg_over_time", got == sel, "%s of another release", function)
	}
}

// reading is a store that a reader reads by way of a reducer.
type reading struct {
	selection.Single
	r     *Reducer
	fewer *int // how often it was sent less
}

func (s reading) Querier(int64, int64) (storage.Querier, error) {
	return readingQuerier{s, storage.NoopQuerier()}, nil
}

type readingQuerier struct {
	reading
	storage.LabelQuerier
}

func (q readingQuerier) Select(ctx context.Context, _ bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	got, release, err := q.r.Aggregate(ctx, serve.Query{
		MinT: h.Start, MaxT: h.End, Start: h.Start, End: h.End, Hints: h, Reader: newer, Matchers: ms,
	}, q.Selection)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	release()
	if got != q.Selection {
		*q.fewer++
	}
	return got.SeriesSet(h.Start, h.End, nil)
}

// TestDefinitions: a reader that gets what definitions say that it needs answers each function and
// each aggregation as one that gets all.
func TestDefinitions(t *testing.T) {
	r, _ := newReducer(1e6)
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true})})
	queries := map[string]bool{"absent_over_time(x[1m])": true, "x": true} // by whether less is sent
	for _, name := range window.Names() {
		f := window.Named(name)
		args := map[plan.Param]string{plan.ParamBefore: "0.3, x[4m]", plan.ParamAfter: "x[4m], 0.3", plan.TwoParamsAfter: "x[4m], 0.3, 0.4"}[f.Param]
		queries[name+"("+cmp.Or(args, "x[4m]")+")"] = window.Of(f).Sees != window.Everything
	}
	for _, f := range aggregate.Functions() {
		param := map[bool]string{true: "0.4, "}[f.Param] + map[bool]string{true: `"v", `}[f.Labels]
		queries[f.Name+" by (job) ("+param+"x)"] = true
	}
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		b := selection.NewBuilder(0)
		for _, instance := range []string{"a", "b", "c"} {
			var ts []int64
			var vs []float64
			for at := rnd.Int64N(minute); at < hour; at += 1 + rnd.Int64N(minute/4) {
				ts, vs = append(ts, at), append(vs, []float64{1, 2, 3.3, math.Copysign(0, -1), math.NaN(), 7}[rnd.IntN(6)]*float64(1+rnd.IntN(3)))
			}
			b.Series(labels.FromStrings("__name__", "x", "instance", instance, "job", map[bool]string{true: "j1", false: "j2"}[instance == "b"]))
			require.NoError(t, b.Floats(ts, vs))
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		for text, less := range queries {
			answer := func(st storage.Queryable) string {
				q, err := e.NewRangeQuery(t.Context(), st, nil, text, time.Unix(600, 0), time.Unix(3600, 0), 10*time.Minute)
				require.NoError(t, err, text)
				defer q.Close()
				res := q.Exec(t.Context())
				require.NoError(t, res.Err, text)
				return res.String()
			}
			fewer := 0
			require.Equal(t, answer(selection.Single{Selection: sel}), answer(reading{selection.Single{Selection: sel}, r, &fewer}), "seed %d: %s", seed, text)
			require.Equal(t, less, fewer > 0, text)
		}
	}
}

// spoiling is an engine whose values are gone once their query is closed.
type spoiling struct{ promql.QueryEngine }

func (e spoiling) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, step time.Duration) (promql.Query, error) {
	query, err := e.QueryEngine.NewRangeQuery(ctx, q, opts, qs, start, end, step)
	return &spoiled{Query: query}, err
}

type spoiled struct {
	promql.Query
	result *promql.Result
}

func (q *spoiled) Exec(ctx context.Context) *promql.Result {
	q.result = q.Query.Exec(ctx)
	return q.result
}

func (q *spoiled) Close() {
	for _, s := range q.result.Value.(promql.Matrix) {
		clear(s.Floats)
	}
	q.Query.Close()
}

// TestValuesOfQuery: what is sent has its own values, not those of a query that has ended.
func TestValuesOfQuery(t *testing.T) {
	r, _ := newReducer(1e6)
	want, release, err := r.Aggregate(t.Context(), sumByJob(), twoJobs(t))
	require.NoError(t, err)
	defer release()
	require.Equal(t, 2, want.NumSeries())
	r.o.Engine = spoiling{r.o.Engine}
	got, release, err := r.Aggregate(t.Context(), sumByJob(), twoJobs(t))
	require.NoError(t, err)
	defer release()
	for i := range want.NumSeries() {
		require.Len(t, got.Chunks(i), 1)
		require.Equal(t, want.Bytes(want.Chunks(i)[0]), got.Bytes(got.Chunks(i)[0]))
	}
}

// TestRefused: who is cancelled, finds no memory or a damaged chunk gets an error.
func TestRefused(t *testing.T) {
	sel := twoJobs(t)
	r, _ := newReducer(1e6)
	for name, reduce := range map[string]serve.Reduce{"thin": r.Thin, "aggregate": r.Aggregate} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("gone"))
		_, _, err := reduce(ctx, sumByJob(), sel)
		require.Error(t, err, name)
	}
	r.o.Memory = memory.New(memory.Options{Limit: 1})
	for name, reduce := range map[string]serve.Reduce{"thin": r.Thin, "aggregate": r.Aggregate} {
		_, _, err := reduce(t.Context(), sumByJob(), sel)
		require.True(t, memory.Exhausted(err), "%s: %v", name, err)
		require.Zero(t, r.o.Memory.Used(), name)
	}

	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "x"))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, hour, []byte{0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}))
	damaged, err := b.Finish()
	require.NoError(t, err)
	discarded := false
	damaged.OnDiscard = func() { discarded = true }
	r.o.Memory = nil
	_, _, err = r.Thin(t.Context(), sumByJob(), damaged)
	require.ErrorAs(t, err, new(*selection.CorruptError))
	require.True(t, discarded)
}

// FuzzAggregate: whatever hints say, there is an answer.
func FuzzAggregate(f *testing.F) {
	sel := twoJobs(f)
	r, _ := newReducer(1e6)
	f.Add(10*minute, 50*minute, 10*minute, int64(0), "sum", "job", true)
	f.Add(int64(-farthest), int64(farthest), int64(farthest-1), int64(0), "count", "__name__", false)
	f.Add(-5*minute+1, hour, int64(1), int64(1), "max_over_time", "", false)
	f.Add(-hour, 2*hour, int64(1), hour, "rate", "", false)
	f.Add(9*minute+1, 50*minute, minute, minute, "avg_over_time", "", false)
	f.Add(10*minute, 10*minute+5*minute-1, int64(0), int64(0), "avg", "\xff", true)
	f.Fuzz(func(t *testing.T, start, end, step, width int64, function, group string, by bool) {
		q := sumByJob()
		q.Hints = &storage.SelectHints{Start: start, End: end, Step: step, Range: width, Func: function, By: by, Grouping: []string{group}}
		q.MinT, q.MaxT, q.Start, q.End = start, end, start, end
		got, release, err := r.Aggregate(t.Context(), q, sel)
		require.NoError(t, err)
		require.LessOrEqual(t, got.NumSeries(), sel.NumSeries())
		release()
	})
}
