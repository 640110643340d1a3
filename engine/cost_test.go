package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/internal/dataset"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// costQueries are a dashboard's over the data of package dataset.
var costQueries = []string{
	`sum by (job) (rate(http_requests_total[5m]))`,
	`sum by (job) (rate(http_requests_total{code=~"5.."}[5m])) / sum by (job) (rate(http_requests_total[5m]))`,
	`histogram_quantile(0.99, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))`,
	`sum by (job) (rate(http_request_duration_seconds_sum[5m])) / sum by (job) (rate(http_request_duration_seconds_count[5m]))`,
	`sum by (job, code) (increase(http_requests_total[1h]))`,
	`sum by (handler, code) (rate(http_requests_total{job="job-1"}[1m]))`,
	`sum by (job) (irate(http_requests_total{code=~"5.."}[5m]))`,
	`100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])))`,
	`sum by (job, mode) (rate(node_cpu_seconds_total[5m]))`,
	`avg by (job, type) (node_memory_bytes)`,
	`quantile by (job) (0.9, avg_over_time(node_memory_bytes[5m]))`,
	`deriv(node_memory_bytes{type="free"}[15m]) * 3600`,
	`predict_linear(node_memory_bytes{type="available"}[1h], 4 * 3600) < 2e9`,
	`count(up == 0) or vector(0)`,
	`avg by (job) (avg_over_time(up[1h]))`,
	`sum by (namespace) (kube_pod_memory_working_set_bytes)`,
	`topk(5, sum by (instance) (rate(http_requests_total[10m])))`,
	`rate(http_requests_total{job="job-1", code="200"}[5m])`,
	`process_resident_memory_bytes`,
	`max_over_time(process_resident_memory_bytes[30m])`,
	`quantile_over_time(0.95, process_resident_memory_bytes[1h])`,
	`sum by (job) (changes(up[1h]))`,
	`max_over_time(sum by (job) (rate(http_requests_total[5m]))[1h:1m])`,
	`sum by (version) (rate(http_requests_total[5m]) * on (instance) group_left (version) app_build_info)`,
	`sum by (job) (rate(http_requests_total[5m])) / sum by (job) (rate(http_requests_total[5m] offset 1h))`,
}

const costHours = 10

// costDB has ten hours of a few services.
func costDB(t testing.TB, series int) *teststorage.TestStorage {
	db := teststorage.New(t)
	o := dataset.Options{Start: 0, End: costHours * hour, Series: series, Seed: 3}
	g, err := dataset.New(o)
	require.NoError(t, err)
	require.NoError(t, g.Write(t.Context(), db, o.End))
	return db
}

// costAsks are 200 requests: each query over eight ranges with a step of their own.
func costAsks() (all []question) {
	for _, q := range costQueries {
		for _, hours := range []int64{1, 2, 3, 4} {
			for _, step := range []int64{30_000, 120_000} {
				all = append(all, question{query: q, start: (costHours - 1 - hours) * hour, end: (costHours - 1) * hour, step: step * hours})
			}
		}
	}
	return all
}

func (q question) request(from storage.Queryable, stats bool) Request {
	r := Request{Storage: from, Query: q.query, Start: time.UnixMilli(q.start), End: time.UnixMilli(q.end), Step: time.Duration(q.step) * time.Millisecond, Statistics: stats}
	return r
}

// really is what a selector has, by the storage itself.
func really(t testing.TB, db storage.Queryable, s plan.SelectorCost) (series, samples int64) {
	q, err := db.Querier(s.Start, s.End)
	require.NoError(t, err)
	defer q.Close()
	text, _, _ := strings.Cut(s.Selector, " offset")
	matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(text)
	require.NoError(t, err, s.Selector)
	set := q.Select(t.Context(), false, nil, matchers...)
	var it chunkenc.Iterator
	for set.Next() {
		n := samples
		for it = set.At().Iterator(it); it.Next() != chunkenc.ValNone; {
			samples++
		}
		if samples > n {
			series++
		}
	}
	require.NoError(t, set.Err())
	return series, samples
}

// ratios are how many times too much or too little was expected.
type ratios map[string][]float64

func (r ratios) add(what string, expected, real int64) {
	off := math.Max(float64(expected), 1) / math.Max(float64(real), 1)
	r[what] = append(r[what], math.Max(off, 1/off))
}

// require fails unless of what was expected that share is within that many times of what was.
func (r ratios) require(t *testing.T, share, times float64) {
	for what, all := range r {
		slices.Sort(all)
		within := all[int(share*float64(len(all)-1))]
		t.Logf("%-8s of %d: median %.3f, %g %% within %.3f, worst %.3f times", what, len(all), all[len(all)/2], 100*share, within, all[len(all)-1])
		require.LessOrEqual(t, within, times, what)
	}
}

// TestCost holds what is expected of 200 queries against what they read: of each selector half an hour is
// cached at first, and then all. Then series are exact, and samples but for those at the ends of the
// range where scrapes are late.
func TestCost(t *testing.T) {
	db := costDB(t, 500)
	c, asked := cached(t, db, costHours*hour, true)
	e := New(Options{Prometheus: plainOpts()})
	ask := func(q question) (*plan.Cost, *selection.Stats, int64) {
		stats := &selection.Stats{}
		from := selection.Storage{Source: c, Request: selection.Request{Stats: stats}}
		before := asked.Load()
		expected, err := e.Cost(t.Context(), q.request(from, false))
		require.NoError(t, err, q.query)
		require.Equal(t, before, asked.Load(), "the expectation fetches nothing")
		query, err := e.NewQuery(t.Context(), q.request(from, true))
		require.NoError(t, err)
		defer query.Close()
		require.NoError(t, query.Exec(t.Context()).Err)
		return expected, stats, query.Stats().Samples.SamplesRead
	}
	begun, settled := ratios{}, ratios{}
	for _, q := range costAsks() {
		_, err := c.Drop(0, costHours*hour, nil)
		require.NoError(t, err)
		last := q
		last.start = q.end - hour/2
		ask(last)
		for _, all := range []ratios{begun, settled} {
			expected, stats, read := ask(q)
			require.True(t, expected.Complete)
			all.add("bytes", expected.FetchBytes, stats.FetchedBytes.Load())
			all.add("read", expected.Estimate.Samples, read)
			for _, s := range expected.Selectors {
				require.Equal(t, s.FetchBytes == 0, s.Exact)
				series, samples := really(t, db, s)
				all.add("series", s.Series, series)
				all.add("samples", s.Samples, samples)
			}
		}
	}
	begun.require(t, 0.9, 2)
	settled.require(t, 1, 1.1)
}

// TestCostUnknown: nothing is said of a selector of which nothing is cached, but that.
func TestCostUnknown(t *testing.T) {
	c, asked := cached(t, costDB(t, 100), costHours*hour, true)
	e := New(Options{Prometheus: plainOpts()})
	got, err := e.Cost(t.Context(), question{query: "sum(rate(up[5m])) / count(nothing)", start: hour, end: 2 * hour, step: minute}.request(selection.Storage{Source: c}, false))
	require.NoError(t, err)
	require.False(t, got.Complete)
	require.Len(t, got.Warnings, 2)
	require.Contains(t, got.Warnings[0], "up: nothing is cached of it")
	require.Zero(t, asked.Load())
	require.Zero(t, got.Estimate)
	require.Equal(t, map[string]int64{"upstream": hour + 5*minute}, got.Selectors[0].Sources)
}

// TestCostWider: a selector is counted among what is cached of a wider one.
func TestCostWider(t *testing.T) {
	db := costDB(t, 500)
	c := cache.New(answering{chunksOf{db, nil}}, cache.Options{HostBytes: 1 << 28, Now: func() time.Time { return time.UnixMilli(100 * hour) }})
	defer c.Close()
	e := New(Options{Prometheus: plainOpts()})
	wide := question{query: "sum(http_requests_total)", start: hour, end: 3 * hour, step: minute}
	query, err := wide.on(e, selection.Storage{Source: c})
	require.NoError(t, err)
	require.NoError(t, query.Exec(t.Context()).Err)
	query.Close()
	narrow := question{query: `sum(http_requests_total{code="200"})`, start: hour, end: 3 * hour, step: minute}
	got, err := e.Cost(t.Context(), narrow.request(selection.Storage{Source: c}, false))
	require.NoError(t, err)
	s := got.Selectors[0]
	series, samples := really(t, db, s)
	require.Equal(t, [2]int64{series, samples}, [2]int64{s.Series, s.Samples})
	require.Zero(t, s.FetchBytes)
	require.Positive(t, s.Sources["wider"])
}

// answering is an upstream whose selectors may be answered from wider ones.
type answering struct{ chunksOf }

func (answering) Answers([]*labels.Matcher) bool { return true }

func (a answering) Fetch(ctx context.Context, mint, maxt int64, ms []*labels.Matcher, f selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	return chunksOf{a.db, new(atomic.Int64)}.Fetch(ctx, mint, maxt, ms, f)
}

// TestCostOfMany: a thousand selectors take a short time of the processor, however many series each has.
func TestCostOfMany(t *testing.T) {
	db := costDB(t, 1000)
	c, _ := cached(t, db, costHours*hour, true)
	e := New(Options{Prometheus: plainOpts()})
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`sum({__name__=~"http.*",job!="%d"})`, i%20))
	}
	for _, of := range []int{1, 20, 1000} {
		q := question{query: strings.Join(many[:of], " + "), start: hour, end: 2 * hour, step: minute}
		if of <= 20 {
			query, err := q.on(e, selection.Storage{Source: c})
			require.NoError(t, err)
			require.NoError(t, query.Exec(t.Context()).Err)
			query.Close()
		}
		least := time.Hour
		for range 5 {
			began := processorTime(t)
			got, err := e.Cost(t.Context(), q.request(selection.Storage{Source: c}, false))
			require.NoError(t, err)
			require.True(t, got.Complete)
			require.Len(t, got.Selectors, of)
			least = min(least, processorTime(t)-began)
		}
		t.Logf("%d selectors: %s", of, least)
		require.Less(t, least, time.Duration(50+of/4)*time.Millisecond)
	}
}

// TestCeilings: a query that reads more than its request allows fails, before anything is fetched where the
// cache knows, and else before anything is evaluated; one that reads just as much is answered.
func TestCeilings(t *testing.T) {
	db := costDB(t, 500)
	ask := question{query: `sum(rate(http_requests_total[5m])) / sum(up)`, start: hour, end: 3 * hour, step: minute}
	both, err := New(Options{Prometheus: plainOpts()}).Cost(t.Context(), ask.request(db, false))
	require.NoError(t, err)
	require.False(t, both.Complete, "the storage keeps nothing")
	var series, samples, mostSeries, mostSamples int64
	for _, s := range both.Selectors {
		n, m := really(t, db, s)
		series, samples, mostSeries, mostSamples = series+n, samples+m, max(mostSeries, n), max(mostSamples, m)
	}
	for _, mode := range []Mode{Auto, CPU, Prometheus} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cached: %t", mode, known), func(t *testing.T) {
				c, asked := cached(t, db, costHours*hour, true)
				e := New(Options{Prometheus: plainOpts()})
				run := func(maxSeries, maxSamples int64) error {
					r := ask.request(selection.Storage{Source: c}, false)
					r.Mode, r.MaxSeries, r.MaxSamples = mode, maxSeries, maxSamples
					query, err := e.NewQuery(t.Context(), r)
					require.NoError(t, err)
					defer query.Close()
					return query.Exec(t.Context()).Err
				}
				if known {
					require.NoError(t, run(0, 0))
				}
				before := asked.Load()
				var beyond *CeilingError
				require.ErrorAs(t, run(series-1, 0), &beyond)
				require.Equal(t, CeilingError{"max_series", series, series - 1, "http_requests_total", mostSeries, false}, *beyond)
				require.Contains(t, beyond.Error(), fmt.Sprintf("query reads %d series, 1 more than the %d that max_series allows; most of them, %d, are of http_requests_total: ask", series, series-1, mostSeries))
				require.Equal(t, known, asked.Load() == before)
				require.ErrorAs(t, run(series, 1000), &beyond)
				require.Equal(t, "max_samples", beyond.Parameter)
				require.Greater(t, beyond.Reads, int64(1000))
				require.NoError(t, run(series, samples+samples/100))
				require.NoError(t, run(0, samples+samples/100))
			})
		}
	}
}

// TestCeilingsExpected: a query is refused before it fetches if it is expected to read twice as much as it
// may by what is cached of a part of it, and not if it is expected to read a little more.
func TestCeilingsExpected(t *testing.T) {
	c, asked := cached(t, costDB(t, 500), costHours*hour, true)
	e := New(Options{Prometheus: plainOpts()})
	run := func(start, maxSamples int64) error {
		r := question{query: "sum(up)", start: start, end: 9 * hour, step: minute}.request(selection.Storage{Source: c}, false)
		r.MaxSamples = maxSamples
		query, err := e.NewQuery(t.Context(), r)
		require.NoError(t, err)
		defer query.Close()
		return query.Exec(t.Context()).Err
	}
	require.NoError(t, run(8*hour+hour/2, 0))
	before := asked.Load()
	var beyond *CeilingError
	require.ErrorAs(t, run(hour, 10_000), &beyond)
	require.True(t, beyond.Extrapolated)
	require.Contains(t, beyond.Error(), "is expected to read about")
	require.Equal(t, before, asked.Load())
	require.ErrorAs(t, run(hour, 9*beyond.Reads/10), &beyond)
	require.False(t, beyond.Extrapolated)
	require.Greater(t, asked.Load(), before)
}

// TestPace: a pace finds what units take from observations that have them mixed, of each kind of work, and
// one observation that is far off changes little.
func TestPace(t *testing.T) {
	for name, took := range map[string][2]float64{ // µs, of a fetch and of a byte
		"a fast server": {200, 0.001}, "a far one": {40_000, 0.01}, "a slow line": {2000, 0.1},
	} {
		p, r := newPace(200, 15, 0.01), rand.New(rand.NewPCG(1, 2))
		real := func(kind string, series, bytes float64) time.Duration {
			us := took[0] + 20*series + took[1]*bytes
			if kind == "twice" {
				us *= 2
			}
			return time.Duration(us * 1000)
		}
		all := ratios{}
		for i := range 400 {
			kind := []string{"once", "twice"}[r.IntN(2)]
			series := math.Exp(8 * r.Float64())
			bytes := series * 100 * math.Exp(3*r.Float64())
			if i >= 200 {
				all.add(name, int64(p.expect(kind, 1, series, bytes)), real(kind, series, bytes).Microseconds())
			}
			p.observe(real(kind, series, bytes), kind, 1, series, bytes)
		}
		all.require(t, 0.9, 1.5)
		before := p.expect("once", 1, 1, 1)
		p.observe(time.Hour, "once", 1, 1, 1)
		require.Less(t, p.expect("once", 1, 1, 1), 1.5*before)
	}
}
