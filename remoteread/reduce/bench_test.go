package reduce

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// BenchmarkThin thins a week of counters, four samples a minute, to a step of ten minutes.
func BenchmarkThin(b *testing.B) {
	const week = 7 * 24 * hour
	builder := selection.NewBuilder(0)
	times, values := make([]int64, week/(15*second)), make([]float64, week/(15*second))
	for i := range 50 {
		v := 0.0
		for k := range times {
			v += float64((k*7 + i*k) % 50)
			times[k], values[k] = int64(k)*15*second+int64((k*k)%3), v
		}
		builder.Series(labels.FromStrings("__name__", "x", "i", string(rune('a'+i))))
		require.NoError(b, builder.Floats(times, values))
	}
	sel, err := builder.Finish()
	require.NoError(b, err)
	for _, hints := range []*storage.SelectHints{
		{Start: hour - 5*minute + 1, End: week, Step: 10 * minute},
		{Start: hour - 5*minute + 1, End: week, Step: 10 * minute, Func: "rate", Range: 5 * minute},
		{Start: hour - 5*minute + 1, End: week, Step: 10 * minute, Func: "max_over_time", Range: 5 * minute},
	} {
		b.Run(hints.Func, func(b *testing.B) {
			r := New(Options{Lookback: 5 * time.Minute})
			q := serve.Query{MinT: hints.Start, MaxT: hints.End, Start: hints.Start, End: hints.End, Hints: hints, Reader: newer}
			for b.Loop() {
				out, release, err := r.Thin(b.Context(), q, sel)
				require.NoError(b, err)
				require.Less(b, out.NumSamples(), sel.NumSamples()*3/5)
				release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(sel.NumSamples()), "ns/sample")
		})
	}
}
