package aggregate

import (
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the operators that add value to value: count and group, which do not look at
// values, deviations, extremes, and the compensated sums.

var (
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "count"},
		adds: &adding{
			columns: 1,
			first:   (*cells).count,
			more:    (*cells).count,
			results: func(a *cells, c int, out []float64) { copy(out, a.val[c:]) },
		},
		AnyOrder: true,
		Again:    Counted,
		GPU:      abi.Policy{Kernel: abi.ByOperator, Name: "Count"},
	})
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "group"},
		adds: &adding{
			first: func(*cells, int, int, []float64) {},
			more:  func(*cells, int, int, []float64) {},
			results: func(_ *cells, _ int, out []float64) {
				dense.Fill(out, 1)
			},
		},
		AnyOrder: true,
		Again:    Same,
		GPU:      abi.Policy{Kernel: abi.ByOperator, Name: "Group"},
	})
)

// count counts one more value in each of some cells, which begin with 0.
func (a *cells) count(from, to int, _ []float64) {
	val := a.val[from:to]
	for k := range val {
		val[k]++
	}
}

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
			columns: 3,
			first: func(a *cells, from, to int, in []float64) {
				copy(a.comp[from:to], in)
				for k, f := range in {
					if a.n[from+k] = 1; math.IsNaN(f) || math.IsInf(f, 0) {
						a.val[from+k] = math.NaN()
					}
				}
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

var (
	_ = defineExtreme("min", "Min", -1)
	_ = defineExtreme("max", "Max", 1)
)

// defineExtreme defines max, or min when sign is -1: a value gives way to a larger one, and NaN
// to anything.
func defineExtreme(name, policy string, sign float64) *plan.AggregateFunc {
	return define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: name},
		adds: &adding{
			columns: 1,
			first:   func(a *cells, from, to int, in []float64) { copy(a.val[from:to], in) },
			more: func(a *cells, from, to int, in []float64) {
				for ; from < to; from += 64 {
					val, values := a.val[from:min(from+64, to)], in[:min(64, to-from)]
					in = in[len(values):]
					lhs, rhs := val, values
					if sign < 0 {
						lhs, rhs = values, val
					}
					// The others are few, or NaN.
					for p := ^dense.AtLeast(lhs, rhs) & (^uint64(0) >> (64 - len(val))); p != 0; p &= p - 1 {
						k := bits.TrailingZeros64(p)
						if v, f := val[k], values[k]; v*sign < f*sign || math.IsNaN(v) {
							val[k] = f
						}
					}
				}
			},
			results: func(a *cells, c int, out []float64) { copy(out, a.val[c:]) },
		},
		Again: Same,
		GPU:   abi.Policy{Kernel: abi.ByOperator, Name: policy},
	})
}

var (
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "sum"},
		adds: &adding{
			columns: 2,
			first:   func(a *cells, from, to int, in []float64) { copy(a.val[from:to], in) },
			more:    func(a *cells, from, to int, in []float64) { exact.Add(a.val[from:to], a.comp[from:to], in) },
			results: func(a *cells, c int, out []float64) {
				val, comp := a.val[c:c+len(out)], a.comp[c:c+len(out)]
				for k := range out {
					out[k] = val[k] + comp[k]
				}
			},
		},
		Again: Rounded,
		GPU:   abi.Policy{Kernel: abi.ByOperator, Name: "Sum"},
	})
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "avg"},
		adds:          mean,
		Again:         Rounded,
		GPU:           abi.Policy{Kernel: abi.ByOperator, Name: "Avg"},
	})
)

// mean is the arithmetic of avg.
var mean = &adding{
	columns: 3,
	first: func(a *cells, from, to int, in []float64) {
		dense.Fill(a.n[from:to], 1)
		copy(a.val[from:to], in)
	},
	more: (*cells).means,
	results: func(a *cells, c int, out []float64) {
		for k := range out {
			if sum, comp := a.val[c+k], a.comp[c+k]; a.incr[c+k] {
				out[k] = sum + comp
			} else {
				out[k] = float64(sum/a.n[c+k]) + float64(comp/a.n[c+k])
			}
		}
	},
}

// addToMean adds a further value to a mean.
func (a *cells) addToMean(c int, f float64) {
	a.n[c]++
	if !a.incr[c] {
		val, comp := kahansum.Inc(f, a.val[c], a.comp[c])
		if !math.IsInf(val, 0) {
			a.val[c], a.comp[c] = val, comp
			return
		}
		// The sum overflows: go on with a running mean, as Prometheus does.
		a.incr[c] = true
		a.running.Store(true)
		a.val[c] /= a.n[c] - 1
		a.comp[c] /= a.n[c] - 1
	}
	n := a.n[c]
	q := (n - 1) / n
	a.val[c], a.comp[c] = kahansum.Inc(f/n, q*a.val[c], q*a.comp[c])
}

// means adds values to the sums and counts that means are made of.
func (a *cells) means(from, to int, in []float64) {
	val, comp, n := a.val[from:to], a.comp[from:to], a.n[from:to]
	for k := 0; k < len(in); {
		if !a.running.Load() {
			added := exact.AddFinite(val[k:], comp[k:], in[k:])
			for i := range added {
				n[k+i]++
			}
			k += added
		}
		for end := min(k+exact.Lanes, len(in)); k < end; k++ {
			a.addToMean(from+k, in[k])
		}
	}
}
