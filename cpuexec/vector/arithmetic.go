package vector

import (
	"math"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the operators that yield a value.

const noGPUMath = "Go's function has no twin with the same bits there"

var (
	_ = define(&Function{
		MapFunc:    plan.MapFunc{Name: "+", Args: 1},
		arithmetic: func(a, b float64) float64 { return a + b },
		loop: func(out, lhs, rhs []float64) {
			lhs, rhs = lhs[:len(out)], rhs[:len(out)]
			for k := range out {
				out[k] = lhs[k] + rhs[k]
			}
		},
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Add"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "Add"},
	})
	_ = define(&Function{
		MapFunc:    plan.MapFunc{Name: "-", Args: 1},
		arithmetic: func(a, b float64) float64 { return a - b },
		loop: func(out, lhs, rhs []float64) {
			lhs, rhs = lhs[:len(out)], rhs[:len(out)]
			for k := range out {
				out[k] = lhs[k] - rhs[k]
			}
		},
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Subtract"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "SubtractFrom"},
	})
	_ = define(&Function{
		MapFunc:    plan.MapFunc{Name: "*", Args: 1},
		arithmetic: func(a, b float64) float64 { return a * b },
		loop: func(out, lhs, rhs []float64) {
			lhs, rhs = lhs[:len(out)], rhs[:len(out)]
			for k := range out {
				out[k] = lhs[k] * rhs[k]
			}
		},
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Multiply"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "Multiply"},
	})
	_ = define(&Function{
		MapFunc:    plan.MapFunc{Name: "/", Args: 1},
		arithmetic: func(a, b float64) float64 { return a / b },
		loop: func(out, lhs, rhs []float64) {
			lhs, rhs = lhs[:len(out)], rhs[:len(out)]
			for k := range out {
				out[k] = lhs[k] / rhs[k]
			}
		},
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Divide"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "DivideInto"},
	})
	_ = define(&Function{MapFunc: plan.MapFunc{Name: "%", Args: 1}, arithmetic: math.Mod, NoGPU: noGPUMath})
	_ = define(&Function{MapFunc: plan.MapFunc{Name: "^", Args: 1}, arithmetic: math.Pow, NoGPU: noGPUMath})
	_ = define(&Function{MapFunc: plan.MapFunc{Name: "atan2", Args: 1}, arithmetic: math.Atan2, NoGPU: noGPUMath})
)

// ScalarFuncs are the functions of two scalars, by PromQL name.
var ScalarFuncs = map[string]*plan.MapFunc{
	"min_of": defineScalar("min_of", math.Min),
	"max_of": defineScalar("max_of", math.Max),
}

func defineScalar(name string, f func(a, b float64) float64) *plan.MapFunc {
	return defineUnnamed(&Function{MapFunc: plan.MapFunc{Name: name, Args: 1}, arithmetic: f, NoGPU: "it is of scalars"})
}
