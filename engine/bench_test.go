package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// gauges are a day of 240 gauges every 15 s, of which 24 are scraped together: on time, or with a jitter
// of up to 20 ms.
func gauges(jitter int64) *selection.Selection {
	r := rand.New(rand.NewPCG(2, 2))
	b := selection.NewBuilder(0)
	for s := range 240 {
		b.Series(labels.FromStrings("__name__", "g", "instance", fmt.Sprintf("i-%04d", s), "job", fmt.Sprint("job-", s%20)))
		late, v := rand.New(rand.NewPCG(3, uint64(s/24))), 50.0
		for c := range 49 {
			chk := chunkenc.NewXORChunk()
			app, _ := chk.Appender()
			var first, last int64
			for i := range 120 {
				v = math.Round(100*(v+r.NormFloat64())) / 100
				last = int64(c*120+i)*15_000 + int64(s/24)*400 + late.Int64N(jitter+1)
				if i == 0 {
					first = last
				}
				app.Append(0, last, v)
			}
			if err := b.Chunk(chunkenc.EncXOR, first, last, chk.Bytes()); err != nil {
				panic(err)
			}
		}
	}
	s, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return s
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
