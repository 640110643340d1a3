package vector

import (
	"math"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions of one value: most are the functions of Go's math package that
// Prometheus calls.

var (
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: "neg", InPlace: true},
		value:   unary(func(v float64) float64 { return -v }),
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Negate"},
	})
	_ = defineUnary("abs", math.Abs, abi.Policy{Kernel: abi.ByMap, Name: "Abs"}, "")
	_ = defineUnary("ceil", math.Ceil, abi.Policy{Kernel: abi.ByMap, Name: "Ceil"}, "")
	_ = defineUnary("floor", math.Floor, abi.Policy{Kernel: abi.ByMap, Name: "Floor"}, "")
	_ = defineUnary("sqrt", math.Sqrt, abi.Policy{Kernel: abi.ByMap, Name: "Root"}, "")
	_ = defineUnary("exp", math.Exp, abi.Policy{}, noGPUMath)
	_ = defineUnary("ln", math.Log, abi.Policy{}, noGPUMath)
	_ = defineUnary("log2", math.Log2, abi.Policy{}, noGPUMath)
	_ = defineUnary("log10", math.Log10, abi.Policy{}, noGPUMath)
	_ = defineUnary("sin", math.Sin, abi.Policy{}, noGPUMath)
	_ = defineUnary("cos", math.Cos, abi.Policy{}, noGPUMath)
	_ = defineUnary("tan", math.Tan, abi.Policy{}, noGPUMath)
	_ = defineUnary("asin", math.Asin, abi.Policy{}, noGPUMath)
	_ = defineUnary("acos", math.Acos, abi.Policy{}, noGPUMath)
	_ = defineUnary("atan", math.Atan, abi.Policy{}, noGPUMath)
	_ = defineUnary("sinh", math.Sinh, abi.Policy{}, noGPUMath)
	_ = defineUnary("cosh", math.Cosh, abi.Policy{}, noGPUMath)
	_ = defineUnary("tanh", math.Tanh, abi.Policy{}, noGPUMath)
	_ = defineUnary("asinh", math.Asinh, abi.Policy{}, noGPUMath)
	_ = defineUnary("acosh", math.Acosh, abi.Policy{}, noGPUMath)
	_ = defineUnary("atanh", math.Atanh, abi.Policy{}, noGPUMath)
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: "sgn"},
		value: unary(func(v float64) float64 {
			switch {
			case v < 0:
				return -1
			case v > 0:
				return 1
			}
			return v
		}),
		GPU: abi.Policy{Kernel: abi.ByMap, Name: "Sign"},
	})
	_ = define(&Function{
		MapFunc:   plan.MapFunc{Name: "deg"},
		value:     unary(func(v float64) float64 { return v * 180 / math.Pi }),
		GPU:       abi.Policy{Kernel: abi.ByMap, Name: "Scale"},
		Constants: func([]float64) (a, b float64) { return 180, math.Pi },
	})
	_ = define(&Function{
		MapFunc:   plan.MapFunc{Name: "rad"},
		value:     unary(func(v float64) float64 { return v * math.Pi / 180 }),
		GPU:       abi.Policy{Kernel: abi.ByMap, Name: "Scale"},
		Constants: func([]float64) (a, b float64) { return math.Pi, 180 },
	})
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: "round", Args: 1, Optional: 1, Default: 1},
		value: func(args []float64) func(float64) float64 {
			// Inverting first costs fewer roundings, says Prometheus.
			inverse := 1.0 / args[0]
			return func(v float64) float64 { return math.Floor(float64(v*inverse)+0.5) / inverse }
		},
		GPU:       abi.Policy{Kernel: abi.ByMap, Name: "Round"},
		Constants: func(args []float64) (a, b float64) { return 1.0 / args[0], 0 },
	})
)

// The functions that keep a value between bounds.
var (
	_ = defineClamp("clamp", 2, func(args []float64) (low, high float64) { return args[0], args[1] })
	_ = defineClamp("clamp_min", 1, func(args []float64) (low, high float64) { return args[0], math.Inf(1) })
	_ = defineClamp("clamp_max", 1, func(args []float64) (low, high float64) { return math.Inf(-1), args[0] })
)

func defineClamp(name string, args int, bounds func(args []float64) (low, high float64)) *plan.MapFunc {
	return define(&Function{
		MapFunc: plan.MapFunc{Name: name, Args: args},
		value: func(args []float64) func(float64) float64 {
			low, high := bounds(args)
			return func(v float64) float64 { return math.Max(low, math.Min(high, v)) }
		},
		Drops: func(args []float64) bool {
			low, high := bounds(args)
			return high < low
		},
		GPU:       abi.Policy{Kernel: abi.ByMap, Name: "Clamp"},
		Constants: bounds,
	})
}

func defineUnary(name string, f func(float64) float64, gpu abi.Policy, noGPU string) *plan.MapFunc {
	return define(&Function{MapFunc: plan.MapFunc{Name: name}, value: unary(f), GPU: gpu, NoGPU: noGPU})
}

// unary is a function without constants as the value of a Function.
func unary(f func(float64) float64) func([]float64) func(float64) float64 {
	return func([]float64) func(float64) float64 { return f }
}
