package aggregate

import (
	"math"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = defineExtreme("min", "Min", func(v, f float64) bool { return v > f }, least)
	_ = defineExtreme("max", "Max", func(v, f float64) bool { return v < f }, greatest)
)

// defineExtreme defines min or max: a value gives way to one that worse says it is worse than,
// and NaN to anything.
func defineExtreme(name, policy string, worse func(v, f float64) bool, more func(val, in []float64)) *Function {
	return define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: name},
		adds: &adding{
			val:   true,
			first: func(a *cells, c int, f float64) { a.val[c] = f },
			next: func(a *cells, c int, f float64) {
				if v := a.val[c]; worse(v, f) || math.IsNaN(v) {
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
