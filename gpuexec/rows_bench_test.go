package gpuexec

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection/slab"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// BenchmarkRows is a window alone, from the job to the matrix: means of 7 points, of
// zeros or of random values, whose chunks are on the device or in page-locked slabs,
// and whose rows stay where they are copied back to or are copied once more.
func BenchmarkRows(b *testing.B) {
	const points = 7 * 1024
	series := 256
	if cudatest.Real() {
		series = 65_536
	}
	dev := cudatest.Device(b)
	pinned.PageLockSlabs(dev)
	defer slab.PageLock(nil)
	for _, values := range []string{"zeros", "random"} {
		sel, err := synthetic.Make(synthetic.Options{
			Series: series, Distinct: 256,
			Labels: func(i int) labels.Labels {
				return labels.FromStrings("__name__", "points", "series", fmt.Sprintf("%07d", i))
			},
			Samples: func(k int) (ts []int64, vs []float64) {
				r := rand.New(rand.NewPCG(9, uint64(k)))
				for i := range points {
					v := 0.0
					if values == "random" {
						v = r.Float64()
					}
					ts, vs = append(ts, synthetic.Start+5000*int64(i+1)), append(vs, v)
				}
				return ts, vs
			},
		})
		require.NoError(b, err)
		w := aggregation("sum", "avg_over_time", 35_000, 0, nil, nil, false).Input
		job := jobOver(w, plan.Grid{Start: synthetic.Start + 35_000, Interval: 35_000, Steps: points / 7}, sel)
		for _, how := range []string{"lent", "staged"} {
			o := Options{}
			if !cudatest.Real() {
				o = Options{Memory: 512 << 20, Staging: 1 << 20}
			}
			if how == "staged" {
				o.Rows = -1
			}
			x, err := New(dev, cpuexec.New(cpuexec.Options{}), o)
			require.NoError(b, err)
			for _, where := range []string{"resident", "host"} {
				b.Run(values+"/"+how+"/"+where, func(b *testing.B) {
					var stages pipeline.Stages
					start := time.Now()
					m, err := x.Run(b.Context(), job)
					require.NoError(b, err)
					m.Release()
					first := time.Since(start)
					for b.Loop() {
						if where == "host" {
							x.Forget(sel)
						}
						m, err := x.RunStages(b.Context(), job, &stages)
						require.NoError(b, err)
						require.Len(b, m.Rows, series)
						m.Release()
					}
					b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
					b.SetBytes(int64(8 * series * points / 7))
					b.ReportMetric(float64(stages.Computing.Microseconds())/1000, "kernels-ms")
					b.ReportMetric(float64(stages.Copying.Microseconds())/1000, "copying-ms")
					b.ReportMetric(float64(stages.Result.Microseconds())/1000, "back-ms")
				})
			}
			require.NoError(b, x.Close())
		}
	}
}
