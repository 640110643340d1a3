package resampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// TestGroupOrder: quantiles of groups of more values than a block keeps, which samples of them lead to
// soon, late, or not at all; in groups of few series and of many.
func TestGroupOrder(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 128 << 20})
	r := rand.New(rand.NewPCG(7, 7))
	values := []struct {
		name string
		of   func(series, i int) float64
	}{
		{"all the same", func(int, int) float64 { return 7 }},
		{"two", func(_, i int) float64 { return float64(i % 2) }},
		{"half, a few between, half", func(_, i int) float64 { return min(2, max(0, float64(i%1000)/2-248)) }},
		{"ten, one of which most", func(int, int) float64 { return math.Floor(max(0, r.NormFloat64()*3)) }},
		{"normal", func(int, int) float64 { return r.NormFloat64() }},
		{"rising", func(series, i int) float64 { return float64(series*1_000_000 + i) }},
		{"of all exponents", func(int, int) float64 { return math.Ldexp(r.Float64()-0.5, r.IntN(2000)-1000) }},
		{"odd", func(int, int) float64 { return oddValues[r.IntN(len(oddValues))] }},
		{"NaN for the most part", func(_, i int) float64 { return []float64{math.NaN(), math.NaN(), r.Float64(), math.NaN()}[i%4] }},
		// One in 21 of 20 000 samples is looked at first, or one in 6: these are small.
		{"misleading", func(_, i int) float64 {
			return map[bool]float64{true: -float64(i), false: float64(i)}[i%21 == 0 || i%6 == 0]
		}},
		{"misleading, all the same", func(_, i int) float64 { return map[bool]float64{true: 0, false: 1}[i%21 == 0 || i%6 == 0] }},
	}
	for _, shape := range []struct{ series, samples int }{{2, 20_000}, {9, 3000}, {300, 150}, {300, 20}} {
		for _, v := range values {
			b := selection.NewBuilder(0)
			for i := range shape.series {
				b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i), "job", "a"))
				samples := shape.samples
				if shape.series == 2 && i == 1 {
					samples = 1
				}
				chunks(t, b, samples, 100, func(k int) float64 { return v.of(i, k) })
			}
			sel, err := b.Finish()
			require.NoError(t, err)
			for _, of := range []string{"median", "median,95pct", "0pct,100pct,50pct,99.9pct,1pct"} {
				what := fmt.Sprintf("%s, %d series of %d, %s", v.name, shape.series, shape.samples, of)
				check(t, a, synthetic.Storage{Selection: sel}, "metric=m&every=1h&start=0&end=3600&by=job&aggregates="+of, what)
			}
		}
	}
	require.Zero(t, a.declined)
	require.Equal(t, 4*len(values)*3, a.computed)
}

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
