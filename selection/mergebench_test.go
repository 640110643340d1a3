package selection

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// BenchmarkMerge merges what two sources have of 500 series of six hours, a sample
// every 15 s: different series, the same chunks, or the same samples in chunks that
// are cut elsewhere.
func BenchmarkMerge(b *testing.B) {
	const series = 500
	source := func(from, length int64) *Selection {
		s := NewBuilder(0)
		for i := range series {
			s.Series(name(int(from) + i))
			start := int64(0)
			for end := length; start < 6*3_600_000; end += 120 * 15_000 {
				add(b, s, chunkenc.EncXOR, timesBetween(start, min(end, 6*3_600_000)-15_000, 15_000), rising)
				start = end
			}
		}
		return finish(b, s)
	}
	first := source(0, 120*15_000)
	for _, c := range []struct {
		name   string
		second *Selection
	}{
		{"different series", source(series, 120*15_000)},
		{"same chunks", source(0, 120*15_000)},
		{"cut elsewhere", source(0, 60*15_000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Merge(ctx, first, c.second); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(first.NumSamples()), "ns/sample")
		})
	}
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			for set := first.SeriesSet(0, math.MaxInt64, nil); set.Next(); {
				for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; {
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(first.NumSamples()), "ns/sample")
	})
}
