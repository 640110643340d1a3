package engine

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

// nativeEnd is the end of the benchmark's data, in ms.
const nativeEnd = 6 * hour

// BenchmarkNative runs queries over native histograms, and over them and floats, on
// promwarp's engine and on Prometheus's, in turns over the same cache, and says what the
// former takes of the latter's processor time, which other processes change little; and on
// Prometheus's over its own storage.
func BenchmarkNative(b *testing.B) {
	db := nativeDB(b, 50, nativeEnd)
	c, _ := cached(b, db, nativeEnd, true)
	ours := New(Options{Prometheus: plainOpts(), DecodedBytes: 1 << 30})
	run := func(b *testing.B, mode Mode, q storage.Queryable, qs string) float64 {
		began := processorTime(b)
		query, err := ours.NewRangeQuery(WithMode(context.Background(), mode, false), q, nil, qs, time.UnixMilli(600_000), time.UnixMilli(nativeEnd), time.Minute)
		require.NoError(b, err)
		require.NoError(b, query.Exec(context.Background()).Err)
		query.Close()
		runtime.GC()
		return (processorTime(b) - began).Seconds() * 1e3
	}
	for _, qs := range []string{
		"a - b",
		"sum(a) / sum(b)",
		"histogram_quantile(0.9, sum(rate(h[5m])))",
		"sum(rate(h[5m])) + sum(rate(h2[5m]))",
		"sum(f) / histogram_count(sum(rate(h[5m])))",
	} {
		b.Run(qs, func(b *testing.B) {
			run(b, Auto, c, qs)
			var auto, alone, own []float64
			for b.Loop() {
				auto, alone, own = append(auto, run(b, Auto, c, qs)), append(alone, run(b, Prometheus, c, qs)), append(own, run(b, Prometheus, db, qs))
			}
			for _, all := range [][]float64{auto, alone, own} {
				slices.Sort(all)
			}
			mid := len(auto) / 2
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(auto[mid], "ms-auto")
			b.ReportMetric(alone[mid], "ms-prometheus")
			b.ReportMetric(own[mid], "ms-storage")
			b.ReportMetric(auto[mid]/alone[mid], "x-prometheus")
		})
	}
}
