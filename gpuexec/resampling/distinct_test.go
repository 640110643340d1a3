package resampling

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// TestDistinct: numbers of different values of groups that have few of them, and more than have a
// place in a block's table.
func TestDistinct(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 64 << 20})
	for _, different := range []int{1, 3, 2000, 4096, 4097, 30_000} {
		b := selection.NewBuilder(0)
		for i := range 9 {
			b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i), "job", fmt.Sprint(i%2)))
			chunks(t, b, 8000, 1000, func(k int) float64 {
				if v := k * (i + 1) % different; v != 0 {
					return float64(v)
				}
				return []float64{0, math.Copysign(0, -1), math.NaN()}[k%3]
			})
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		for _, fields := range []string{"nunique&by=job", "max,nunique,95pct,rate:nunique,median&by="} {
			check(t, a, synthetic.Storage{Selection: sel}, "metric=m&every=1h&start=0&end=8000&aggregates="+fields, fmt.Sprint(different, " ", fields))
		}
	}
	require.Zero(t, a.declined)
	require.Equal(t, 12, a.computed)
}
