package answer

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/selection"
)

// sampledAnswer is an answer of samples as a Prometheus sends it: compressed, with
// the given number of samples of each series, 15 s apart.
func sampledAnswer(series, samples int, shuffled bool) []byte {
	var all []*prompb.TimeSeries
	for i := range series {
		ts := &prompb.TimeSeries{Labels: []prompb.Label{
			{Name: "__name__", Value: "http_requests_total"}, {Name: "cluster", Value: "eu-west-1"}, {Name: "code", Value: "200"},
			{Name: "handler", Value: "/api/v1/query"}, {Name: "instance", Value: fmt.Sprintf("host-%05d.example.org:9090", i)},
			{Name: "job", Value: "job-1"}, {Name: "method", Value: "GET"}, {Name: "namespace", Value: "default"},
			{Name: "pod", Value: fmt.Sprintf("api-6d4cf56db6-%05d", i)},
		}}
		v := float64(1000 * (i + 1))
		for n := range samples {
			v += float64((n*7+i)%13) / 4
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: 1_700_000_000_000 + int64(n)*15_000 + int64(n*i%3), Value: v})
		}
		all = append(all, ts)
	}
	if shuffled {
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return snappy.Encode(nil, marshal(&prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: all}}}))
}

// BenchmarkSamples reads answers of samples, with labels that are expected or not, in
// label order or, as a Prometheus's head sends them, in another.
func BenchmarkSamples(b *testing.B) {
	for _, shape := range []struct{ series, samples int }{{1400, 5}, {1400, 20}, {20_000, 5}, {100, 240}} {
		for _, shuffled := range []bool{false, true} {
			data := sampledAnswer(shape.series, shape.samples, shuffled)
			r := within(1 << 40)
			read := func(b *testing.B, ctx context.Context) *selection.Selection {
				s, err := r.readOne(ctx, bytes.NewReader(data), false, uncounted())
				if err != nil || s.NumSamples() != int64(shape.series*shape.samples) {
					b.Fatal(s, err)
				}
				return s
			}
			run := func(ctx context.Context, name string) {
				b.Run(fmt.Sprintf("%dx%d,shuffled=%v%s", shape.series, shape.samples, shuffled, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						read(b, ctx)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(shape.series), "ns/series")
				})
			}
			run(b.Context(), ",new")
			run(selection.Expect(b.Context(), selection.Expectation{Series: read(b, b.Context()).Series()}), ",expected")
		}
	}
}
