package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// scraped is a number of half hours of series every 15 s. of returns the labels of a series and by how many
// ms each of its samples comes late, next the value after another.
func scraped(series, halves int, of func(s int) (labels.Labels, func() int64), next func(r *rand.Rand, v float64) float64) *selection.Selection {
	sel, err := synthetic.Make(synthetic.Options{
		Series: series, Distinct: series,
		Labels: func(s int) labels.Labels {
			ls, _ := of(s)
			return ls
		},
		Samples: func(s int) (ts []int64, vs []float64) {
			r, v := rand.New(rand.NewPCG(1, uint64(s))), 0.0
			_, late := of(s)
			for i := range int64(halves * synthetic.ChunkSamples) {
				v = next(r, v)
				ts, vs = append(ts, i*15_000+late()), append(vs, v)
			}
			return ts, vs
		},
	})
	if err != nil {
		panic(err)
	}
	return sel
}

// by is always as late.
func by(ms int) func() int64 { return func() int64 { return int64(ms) } }

func counter(r *rand.Rand, v float64) float64 {
	if r.IntN(3000) == 0 {
		return 0
	}
	return v + float64(r.IntN(30))
}

// counters is a day of 3184 counters; 24 of them are scraped together.
var counters = sync.OnceValue(func() *selection.Selection {
	return scraped(3184, 48, func(s int) (labels.Labels, func() int64) {
		return labels.FromStrings("__name__", "http_requests_total", "job", fmt.Sprintf("job-%d", s/24%10), "instance", fmt.Sprintf("i-%04d", s/24),
			"path", fmt.Sprint("/", s%24), "code", fmt.Sprint(200+s%3)), by(s / 24)
	}, counter)
})

// builds is a day of a gauge that says which of ten versions each instance of
// counters runs.
var builds = sync.OnceValue(func() *selection.Selection {
	return scraped(3184, 48, func(s int) (labels.Labels, func() int64) {
		return labels.FromStrings("__name__", "build_info", "instance", fmt.Sprintf("i-%04d", s), "version", fmt.Sprint("v", s%10)), by(s)
	}, func(*rand.Rand, float64) float64 { return 1 })
})

// BenchmarkDay runs queries over 80 000 s at a 60 s step over 17 M samples held
// as chunks, on promwarp's engine, on the same with what it decoded before, and
// on Prometheus's.
func BenchmarkDay(b *testing.B) {
	chunks := named{"http_requests_total": counters(), "build_info": builds()}
	decoded := named{}
	for name, sel := range chunks {
		decoded[name] = sel.WithMemos(math.MaxInt64)
	}
	for _, qs := range []string{
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
		"sum by (version) (rate(http_requests_total[5m]) * on (instance) group_left (version) build_info)",
		"sum(rate(http_requests_total[5m])) + sum(build_info)", // the same samples read, not joined
		"rate(http_requests_total[5m]) * on (instance) group_left (version) build_info",
		"count(http_requests_total > on (instance) group_left build_info)",
		"sum(http_requests_total and on (instance) build_info)",
		"sum(http_requests_total / scalar(sum(build_info)))",
		"1 - sum by (job) (rate(http_requests_total[5m])) / sum by (job) (rate(http_requests_total[10m]))",
	} {
		for _, c := range []struct {
			name string
			e    promql.QueryEngine
			q    named
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

// BenchmarkMonth runs queries at 1440 steps over one day and over thirty of 100 counters, all scraped
// together, from chunks: the cost must not grow faster than the samples.
func BenchmarkMonth(b *testing.B) {
	sel := scraped(100, 30*48, func(s int) (labels.Labels, func() int64) {
		return labels.FromStrings("__name__", "http_requests_total", "job", fmt.Sprint("job-", s%10), "instance", fmt.Sprintf("i-%04d", s)), by(0)
	}, counter)
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
				part := sel.Slice(end.UnixMilli()-days*86_400_000, end.UnixMilli())
				q := queryable{select_: func() (*selection.Selection, error) { return part, nil }}
				for b.Loop() {
					query, err := e.NewRangeQuery(context.Background(), q, nil, query, end.Add(-time.Duration(days)*24*time.Hour+5*step), end, step)
					require.NoError(b, err)
					require.NoError(b, query.Exec(context.Background()).Err)
					query.Close()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(part.NumSamples()), "ns/sample")
			})
		}
	}
}

// gauges are a day of 240 gauges every 15 s, of which 24 are scraped together: on time, or with a jitter
// of up to 20 ms.
func gauges(jitter int64) *selection.Selection {
	return scraped(240, 49, func(s int) (labels.Labels, func() int64) {
		late := rand.New(rand.NewPCG(3, uint64(s/24)))
		return labels.FromStrings("__name__", "g", "instance", fmt.Sprintf("i-%04d", s), "job", fmt.Sprint("job-", s%20)),
			func() int64 { return int64(s/24)*400 + late.Int64N(jitter+1) }
	}, func(r *rand.Rand, v float64) float64 { return math.Round(100*(v+r.NormFloat64())) / 100 })
}

// BenchmarkBuckets makes the same of a day of samples by PromQL and by a resample request, of which both
// have retained what they decoded: user time of the process for a sample.
func BenchmarkBuckets(b *testing.B) {
	const start, day = 3_600, 86_400 // s
	for _, scrapes := range []struct {
		name   string
		jitter int64
	}{{"regular", 0}, {"jittered", 20}} {
		decoded := named{"g": gauges(scrapes.jitter).WithMemos(math.MaxInt64)}
		e := New(Options{Prometheus: plainOpts(), DecodedBytes: 1 << 30})
		x := resample.New(resample.Options{Columns: e.Columns()})
		measure := func(b *testing.B, f func()) {
			f()
			f()
			began := userTime(b)
			for b.Loop() {
				f()
			}
			b.ReportMetric((userTime(b)-began)/float64(b.N)/float64(decoded["g"].NumSamples()), "user-ns/sample")
		}
		for _, c := range []struct{ aggregate, query string }{
			{"min", "min_over_time(g[%s])"}, {"max", "max_over_time(g[%s])"}, {"sum", "sum_over_time(g[%s])"}, {"mean", "avg_over_time(g[%s])"},
			{"count", "count_over_time(g[%s])"}, {"first", "first_over_time(g[%s])"}, {"last", "last_over_time(g[%s])"},
			{"std", "stddev_over_time(g[%s])"}, {"median", "quantile_over_time(0.5, g[%s])"}, {"95pct", "quantile_over_time(0.95, g[%s])"},
			{"rate:sum", "increase(g[%s])"},
		} {
			for _, every := range []string{"5m", "1h"} {
				for _, by := range []struct{ name, query, fields string }{
					{"each", "%s", ""}, {"sum by job", "sum by (job) (%s)", "&by=job&reaggregate=sum"},
				} {
					name := fmt.Sprintf("%s/%s/%s/%s", scrapes.name, c.aggregate, every, by.name)
					step, err := model.ParseDuration(every)
					require.NoError(b, err)
					b.Run(name+"/promql", func(b *testing.B) {
						qs := fmt.Sprintf(by.query, fmt.Sprintf(c.query, every))
						measure(b, func() {
							query, err := e.NewRangeQuery(b.Context(), decoded, nil, qs, time.Unix(start, 0).Add(time.Duration(step)), time.Unix(start+day-3600, 0), time.Duration(step))
							require.NoError(b, err)
							require.NoError(b, query.Exec(b.Context()).Err)
							query.Close()
						})
					})
					b.Run(name+"/resample", func(b *testing.B) {
						form, err := url.ParseQuery(fmt.Sprintf("metric=g&start=%d&end=%d&every=%s&closed=right&label=right&aggregates=%s%s", start, start+day-3600, every, c.aggregate, by.fields))
						require.NoError(b, err)
						measure(b, func() {
							r, err := resample.Parse(form, time.Now(), resample.Known{Parser: plainOpts().Parser})
							require.NoError(b, err)
							p, err := resample.NewPlan(r)
							require.NoError(b, err)
							result, err := x.Run(b.Context(), decoded, p)
							require.NoError(b, err)
							result.Release()
						})
					})
				}
			}
		}
	}
}

// userTime is the user time of the process in ns.
func userTime(b *testing.B) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano())
}
