package histogram

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// TestBucketQuantile compares quantiles, and what had to be repaired for them,
// with promql.BucketQuantile: over sound histograms and over ones with
// decreasing, nearly equal, negative, infinite and missing counts, repeated
// bounds, bounds that are no number, and without an infinite bound.
func TestBucketQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	bounds := []float64{0.1, 0.5, 1, 1, 2, 2.5, 5, 10, 0, -1, -0.5, 100, 20, 30, 40, 3, 4, 6, 7, 8, math.Inf(-1)}
	counts := []float64{0, 1, 2, 100, -3, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1), 5e-324, 1e-310, math.MaxFloat64, -math.MaxFloat64}
	quantiles := []float64{0, 0.01, 0.5, 0.9, 0.99, 1, -0.1, 1.1, math.NaN(), math.Inf(1), math.Copysign(0, -1)}
	repaired, finite := 0, 0
	var block quantileBlock
	for range 3000 {
		steps := 1 + r.IntN(150)
		var cols []bucketColumn
		n := 1 + r.IntN(5)
		if r.IntN(3) == 0 {
			n = 5 + r.IntN(20)
		}
		spread := r.IntN(5)
		running := make([]float64, steps)
		for i := range n {
			bound := bounds[r.IntN(len(bounds))]
			if r.IntN(20) == 0 {
				bound = math.NaN()
			}
			if i == n-1 && r.IntN(8) > 0 {
				bound = math.Inf(1)
			}
			c := make([]float64, steps)
			for k := range c {
				switch spread {
				case 0: // sound
					running[k] += float64(r.IntN(10))
				case 1: // noise in the last bits
					running[k] = 1000 * (1 + float64(r.IntN(30)-10)*1e-13)
				case 2: // decreasing now and then
					running[k] += float64(r.IntN(10) - 2)
				case 3:
					running[k] += r.Float64()
				default:
					running[k] = counts[r.IntN(len(counts))]
				}
				c[k] = running[k]
			}
			cols = append(cols, bucketColumn{bound, c})
		}
		q := quantiles[r.IntN(len(quantiles))]
		want := make([]float64, steps)
		wantRepairs := repairs{minBound: math.Inf(1), maxBound: math.Inf(-1)}
		stepsRepaired := 0
		for k := range want {
			var bs promql.Buckets
			for _, c := range cols {
				bs = append(bs, promql.Bucket{UpperBound: c.bound, Count: c.counts[k]})
			}
			v, forced, _, minBound, maxBound, maxDiff := promql.BucketQuantile(q, bs)
			if want[k] = v; forced {
				wantRepairs.widen(minBound, maxBound, maxDiff)
				stepsRepaired++
			}
		}
		first := r.IntN(100)
		var got repairs
		out := make([]float64, steps)
		block.quantiles(q, cols, out, first, &got)
		for k := range want {
			require.True(t, sameFloat(want[k], out[k]), "φ %v step %d of %v: %v, not %v", q, k, cols, out[k], want[k])
			if !math.IsNaN(want[k]) && !math.IsInf(want[k], 0) {
				finite++
			}
		}
		require.Equal(t, stepsRepaired, dense.Count(got.steps))
		if stepsRepaired > 0 {
			repaired++
			require.Equal(t, [3]float64{wantRepairs.minBound, wantRepairs.maxBound, wantRepairs.maxDiff}, [3]float64{got.minBound, got.maxBound, got.maxDiff})
		}
	}
	require.Greater(t, repaired, 300)
	require.Greater(t, finite, 30_000)
}

// sameFloat takes all NaNs for one.
func sameFloat(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}
