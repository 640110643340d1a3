package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// counters is a day of 3184 counters every 15 s, in chunks of 120 samples; 24 of
// them are scraped together.
var counters = sync.OnceValue(func() *selection.Selection {
	r := rand.New(rand.NewPCG(1, 1))
	b := selection.NewBuilder(0)
	for s := range 3184 {
		b.Series(labels.FromStrings("__name__", "http_requests_total", "job", fmt.Sprintf("job-%d", s/24%10), "instance", fmt.Sprintf("i-%04d", s/24), "path", fmt.Sprint("/", s%24), "code", fmt.Sprint(200+s%3)))
		v := 0.0
		for c := range 48 {
			chk := chunkenc.NewXORChunk()
			app, _ := chk.Appender()
			first := int64(c*120)*15_000 + int64(s/24)
			for i := range 120 {
				if v += float64(r.IntN(30)); r.IntN(3000) == 0 {
					v = 0
				}
				app.Append(0, first+int64(i)*15_000, v)
			}
			if err := b.Chunk(chunkenc.EncXOR, first, first+119*15_000, chk.Bytes()); err != nil {
				panic(err)
			}
		}
	}
	s, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return s
})

// builds is a day of a gauge that says which of ten versions each instance of
// counters runs.
var builds = sync.OnceValue(func() *selection.Selection {
	b := selection.NewBuilder(0)
	for s := range 3184 {
		b.Series(labels.FromStrings("__name__", "build_info", "instance", fmt.Sprintf("i-%04d", s), "version", fmt.Sprint("v", s%10)))
		for c := range 48 {
			chk := chunkenc.NewXORChunk()
			app, _ := chk.Appender()
			first := int64(c*120)*15_000 + int64(s)
			for i := range 120 {
				app.Append(0, first+int64(i)*15_000, 1)
			}
			if err := b.Chunk(chunkenc.EncXOR, first, first+119*15_000, chk.Bytes()); err != nil {
				panic(err)
			}
		}
	}
	s, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return s
})

// BenchmarkJoin runs operators between vectors over the same day.
func BenchmarkJoin(b *testing.B) {
	q := named{"http_requests_total": counters(), "build_info": builds()}
	for _, qs := range []string{
		"sum by (version) (rate(http_requests_total[5m]) * on (instance) group_left (version) build_info)",
		"sum(rate(http_requests_total[5m])) + sum(build_info)", // the same samples read, not joined
		"rate(http_requests_total[5m]) * on (instance) group_left (version) build_info",
		"count(http_requests_total > on (instance) group_left build_info)",
		"sum(http_requests_total and on (instance) build_info)",
		"sum(http_requests_total / scalar(sum(build_info)))",
		"avg(time() - http_requests_total)",
		"1 - sum by (job) (rate(http_requests_total[5m])) / sum by (job) (rate(http_requests_total[10m]))",
	} {
		opts := plainOpts()
		for name, e := range map[string]promql.QueryEngine{"promwarp": New(Options{Prometheus: opts}), "prometheus": promql.NewEngine(plainOpts())} {
			b.Run(name+"/"+qs, func(b *testing.B) {
				for b.Loop() {
					query, err := e.NewRangeQuery(context.Background(), q, nil, qs, time.UnixMilli(6_400_000), time.UnixMilli(86_400_000), time.Minute)
					require.NoError(b, err)
					require.NoError(b, query.Exec(context.Background()).Err)
					query.Close()
				}
			})
		}
	}
}

// latencies is a day of 160 classic histograms of 12 buckets every 15 s.
var latencies = sync.OnceValue(func() *selection.Selection {
	r := rand.New(rand.NewPCG(2, 2))
	b := selection.NewBuilder(0)
	les := []string{"+Inf", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "10", "2.5", "5"}
	rank := []int{11, 0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9}
	for inst := range 160 {
		var counts [12][48 * 120]float64
		var total [12]float64
		for k := range counts[0] {
			for range r.IntN(30) {
				for i := min(r.IntN(12), r.IntN(12)); i < 12; i++ {
					total[i]++
				}
			}
			for i := range total {
				counts[i][k] = total[i]
			}
		}
		for i, le := range les {
			b.Series(labels.FromStrings("__name__", "http_request_duration_seconds_bucket", "instance", fmt.Sprintf("i-%04d", inst), "le", le))
			for c := range 48 {
				chk := chunkenc.NewXORChunk()
				app, _ := chk.Appender()
				first := int64(c*120)*15_000 + int64(inst)
				for k := range 120 {
					app.Append(0, first+int64(k)*15_000, counts[rank[i]][c*120+k])
				}
				if err := b.Chunk(chunkenc.EncXOR, first, first+119*15_000, chk.Bytes()); err != nil {
					panic(err)
				}
			}
		}
	}
	s, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return s
})

// BenchmarkDay runs queries over 80 000 s at a 60 s step over 17 M samples held
// as chunks, on promwarp's engine, on the same with what it decoded before, and
// on Prometheus's.
func BenchmarkDay(b *testing.B) {
	benchmarkDay(b, counters(), []string{
		"sum by (job) (rate(http_requests_total[5m]))",
		"sum by (job, code) (increase(http_requests_total[1h]))",
		"avg by (job) (http_requests_total)",
		"rate(http_requests_total[5m])",
		"http_requests_total",
		"sum by (job) (avg_over_time(http_requests_total[5m]))",
		"sum by (job) (avg_over_time(http_requests_total[1h]))",
		"max by (job) (max_over_time(http_requests_total[1h]))",
		"sum by (job) (quantile_over_time(0.9, http_requests_total[1h]))",
		"topk(5, sum by (instance) (rate(http_requests_total[5m])))",
		"sum by (instance) (rate(http_requests_total[5m])) > 1e9",
		"topk(10, http_requests_total)",
		"bottomk by (job) (3, rate(http_requests_total[5m]))",
		"limitk(10, http_requests_total)",
		"limit_ratio(0.1, http_requests_total)",
		`count_values("value", http_requests_total % 7)`,
	})
}

// BenchmarkHistograms does so over 11 M samples of classic histograms. What the
// second query takes less is the quantile's part of the first.
func BenchmarkHistograms(b *testing.B) {
	benchmarkDay(b, latencies(), []string{
		"histogram_quantile(0.5, sum by (le, instance) (rate(http_request_duration_seconds_bucket[5m])))",
		"sum by (le, instance) (rate(http_request_duration_seconds_bucket[5m]))",
		"histogram_fraction(0, 0.3, sum by (le, instance) (rate(http_request_duration_seconds_bucket[5m])))",
		"absent_over_time(http_request_duration_seconds_bucket[5m])",
	})
}

func benchmarkDay(b *testing.B, sel *selection.Selection, queries []string) {
	chunks := queryable{select_: func() (*selection.Selection, error) { return sel, nil }}
	kept := sel.WithMemos(math.MaxInt64)
	decoded := queryable{select_: func() (*selection.Selection, error) { return kept, nil }}
	for _, qs := range queries {
		for _, c := range []struct {
			name string
			e    promql.QueryEngine
			q    queryable
		}{
			{"promwarp", New(Options{Prometheus: plainOpts()}), chunks},
			{"decoded", New(Options{Prometheus: plainOpts(), DecodedBytes: 1 << 30}), decoded},
			{"prometheus", promql.NewEngine(plainOpts()), chunks},
		} {
			b.Run(c.name+"/"+qs, func(b *testing.B) {
				run := func() {
					query, err := c.e.NewRangeQuery(context.Background(), c.q, nil, qs, time.UnixMilli(6_400_000), time.UnixMilli(86_400_000), time.Minute)
					require.NoError(b, err)
					require.NoError(b, query.Exec(context.Background()).Err)
					query.Close()
				}
				run()
				for b.Loop() {
					run()
				}
			})
		}
	}
}

// month is thirty days of 100 counters every 15 s, all scraped together.
var month = sync.OnceValue(func() *selection.Selection {
	r := rand.New(rand.NewPCG(3, 3))
	b := selection.NewBuilder(0)
	for s := range 100 {
		b.Series(labels.FromStrings("__name__", "http_requests_total", "job", fmt.Sprint("job-", s%10), "instance", fmt.Sprintf("i-%04d", s)))
		v := 0.0
		for c := range 30 * 48 {
			chk := chunkenc.NewXORChunk()
			app, _ := chk.Appender()
			first := int64(c*120) * 15_000
			for i := range 120 {
				v += float64(r.IntN(30))
				app.Append(0, first+int64(i)*15_000, v)
			}
			if err := b.Chunk(chunkenc.EncXOR, first, first+119*15_000, chk.Bytes()); err != nil {
				panic(err)
			}
		}
	}
	s, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return s
})

// BenchmarkMonth runs queries at 1440 steps over one day and over thirty, from
// chunks: the cost must not grow faster than the samples.
func BenchmarkMonth(b *testing.B) {
	sel := month()
	for _, qs := range []string{
		"sum by (job) (rate(http_requests_total[%s]))", "sum(avg_over_time(http_requests_total[%s]))",
		"max(max_over_time(http_requests_total[%s]))", "sum(quantile_over_time(0.9, http_requests_total[%s]))",
	} {
		for _, days := range []int64{1, 30} {
			step := time.Duration(days) * time.Minute
			query := fmt.Sprintf(qs, model.Duration(step*5))
			e := New(Options{Prometheus: plainOpts()})
			b.Run(fmt.Sprintf("%dd/%s", days, query), func(b *testing.B) {
				end := time.UnixMilli(30 * 86_400_000)
				var samples int64
				q := queryable{select_: func() (*selection.Selection, error) {
					s := sel.Slice(end.UnixMilli()-days*86_400_000, end.UnixMilli())
					samples = s.NumSamples()
					return s, nil
				}}
				for b.Loop() {
					query, err := e.NewRangeQuery(context.Background(), q, nil, query, end.Add(-time.Duration(days)*24*time.Hour+5*step), end, step)
					require.NoError(b, err)
					require.NoError(b, query.Exec(context.Background()).Err)
					query.Close()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
			})
		}
	}
}

// BenchmarkMoved asks for the same day again, each time at a range a step later of
// which all but the last half hour is settled, with what was decoded before: with
// results remembered and without.
func BenchmarkMoved(b *testing.B) {
	const horizon = 84_000_000
	whole := counters()
	kept, err := whole.Cut(context.Background(), math.MinInt64, horizon-1)
	require.NoError(b, err)
	tail, err := whole.Cut(b.Context(), horizon, math.MaxInt64)
	require.NoError(b, err)
	kept = kept.WithMemos(horizon)
	from := &selection.Provenance{Selector: "http_requests_total", Settled: []selection.Settled{{To: horizon, Revision: 1}}}
	for _, qs := range []string{
		"sum by (job) (rate(http_requests_total[5m]))",
		"sum by (job) (increase(http_requests_total[1h]))",
		"avg by (instance) (http_requests_total)",
		"quantile by (job) (0.9, rate(http_requests_total[5m]))",
		"topk(5, rate(http_requests_total[5m]))",
	} {
		for _, bytes := range []int64{0, 64 << 20} {
			b.Run(fmt.Sprintf("remembering=%v/%s", bytes > 0, qs), func(b *testing.B) {
				e := New(Options{Prometheus: plainOpts(), DecodedBytes: 1 << 30, ResultsBytes: bytes})
				run := func(k int) {
					b.StopTimer()
					sel, err := selection.Join(context.Background(), kept, tail) // as the cache does it
					require.NoError(b, err)
					q := queryable{select_: func() (*selection.Selection, error) { return sel.From(from), nil }}
					start := time.UnixMilli(7_200_000 + int64(k%30)*60_000)
					b.StartTimer()
					query, err := e.NewRangeQuery(context.Background(), q, nil, qs, start, start.Add(22*time.Hour), time.Minute)
					require.NoError(b, err)
					require.NoError(b, query.Exec(context.Background()).Err)
					query.Close()
				}
				run(0)
				for k := 1; b.Loop(); k++ {
					run(k)
				}
			})
		}
	}
}
