package selection

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// BenchmarkJoinTail joins what is kept of 1400 series with what a fetch brought of
// their newest samples, as every query does that asks for these: a chunk of the same
// series that comes behind the kept ones, or one that a part of the last kept one
// is in as well.
func BenchmarkJoinTail(b *testing.B) {
	const (
		series = 1400
		step   = 15_000
		length = 120 * step
	)
	data := encode(b, chunkenc.EncXOR, timesBetween(0, length-step, step), rising)
	label := func(i int) labels.Labels {
		return labels.FromStrings("__name__", "http_requests_total", "cluster", "eu-west-1", "code", "200", "handler", "/api/v1/query",
			"instance", fmt.Sprintf("host-%05d.example.org:9090", i), "job", "job-1", "method", "GET", "namespace", "default",
			"pod", fmt.Sprintf("api-6d4cf56db6-%05d", i))
	}
	build := func(series []labels.Labels, from, chunks int) *Selection {
		s := NewBuilder(0)
		for _, l := range series {
			s.Series(l)
			for k := range chunks {
				start := int64(from+k) * length
				if err := s.Chunk(chunkenc.EncXOR, start, start+length-step, data); err != nil {
					b.Fatal(err)
				}
			}
		}
		return finish(b, s)
	}
	var expected, equal, others []labels.Labels
	for i := range series {
		expected, equal = append(expected, label(i)), append(equal, label(i))
		if i%100 == 50 {
			others = append(others, label(i+series))
			continue
		}
		others = append(others, expected[i])
	}
	for _, chunks := range []int{12, 50} {
		kept := build(expected, 0, chunks).WithMemos(int64(chunks) * length)
		for _, c := range []struct {
			name string
			tail *Selection
		}{
			{"expected", build(expected, chunks, 1)},
			{"equal", build(equal, chunks, 1)},
			{"two", build(expected, chunks, 2)},
			{"others", build(others, chunks, 1)},
			{"again", build(expected, chunks-1, 2)},
		} {
			b.Run(fmt.Sprintf("%d,%s", chunks, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Join(ctx, kept, c.tail); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/series, "ns/series")
			})
		}
	}
}
