package aggregate

import (
	"math"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = defineDeviation("stddev", "StdDev", true)
	_ = defineDeviation("stdvar", "StdVar", false)
)

// defineDeviation defines the variance, or its square root. Of its cells val is the sum of
// squared distances from the mean, comp the mean.
func defineDeviation(name, policy string, root bool) *plan.AggregateFunc {
	return define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: name},
		adds: &adding{
			val: true, comp: true, n: true,
			first: func(a *cells, c int, f float64) {
				a.val[c], a.comp[c], a.n[c] = 0, f, 1
				if math.IsNaN(f) || math.IsInf(f, 0) {
					a.val[c] = math.NaN()
				}
			},
			next: func(a *cells, c int, f float64) {
				a.n[c]++
				delta := f - a.comp[c]
				a.comp[c] += delta / a.n[c]
				a.val[c] += float64(delta * (f - a.comp[c]))
			},
			more: (*cells).deviations,
			results: func(a *cells, c int, out []float64) {
				for k := range out {
					if out[k] = a.val[c+k] / a.n[c+k]; root {
						out[k] = math.Sqrt(out[k])
					}
				}
			},
		},
		GPU: abi.Policy{Kernel: abi.ByOperator, Name: policy},
	})
}

// deviations adds values to the means and squared distances from them.
func (a *cells) deviations(from, to int, in []float64) {
	val, mean, n := a.val[from:to], a.comp[from:to], a.n[from:to]
	val, mean, n = val[:len(in)], mean[:len(in)], n[:len(in)]
	for k, f := range in {
		n[k]++
		delta := f - mean[k]
		m := mean[k] + delta/n[k]
		mean[k] = m
		val[k] += float64(delta * (f - m))
	}
}
