package aggregate

import (
	"math"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = defineExtreme("min", "Min", -1, least)
	_ = defineExtreme("max", "Max", 1, greatest)
)

// defineExtreme defines max, or min when sign is -1: a value gives way to a larger one, and NaN
// to anything.
func defineExtreme(name, policy string, sign float64, more func(val, in []float64)) *plan.AggregateFunc {
	return define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: name},
		adds: &adding{
			val:   true,
			first: func(a *cells, c int, f float64) { a.val[c] = f },
			next: func(a *cells, c int, f float64) {
				if v := a.val[c]; v*sign < f*sign || math.IsNaN(v) {
					a.val[c] = f
				}
			},
			more:    func(a *cells, from, to int, in []float64) { more(a.val[from:to], in) },
			results: func(a *cells, c int, out []float64) { copy(out, a.val[c:]) },
		},
		GPU: abi.Policy{Kernel: abi.ByOperator, Name: policy},
	})
}

// least keeps the smaller values. A NaN gives way to anything.
func least(val, in []float64) {
	val = val[:len(in)]
	for k, f := range in {
		v, bits := val[k], math.Float64bits(val[k])
		if v > f {
			bits = math.Float64bits(f)
		}
		if v != v {
			bits = math.Float64bits(f)
		}
		val[k] = math.Float64frombits(bits)
	}
}

// greatest keeps the larger values. A NaN gives way to anything.
func greatest(val, in []float64) {
	val = val[:len(in)]
	for k, f := range in {
		v, bits := val[k], math.Float64bits(val[k])
		if v < f {
			bits = math.Float64bits(f)
		}
		if v != v {
			bits = math.Float64bits(f)
		}
		val[k] = math.Float64frombits(bits)
	}
}
