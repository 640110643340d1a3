package vector

import (
	"math"
	"time"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the operators that yield a value, those that keep a value or drop it, the
// functions that tell of a time, and functions of one value, most of which are those of Go's math
// package that Prometheus calls.

const noGPUMath = "Go's function has no twin with the same bits there"

var (
	_ = defineArithmetic("+", "Add", "Add", func(a, b float64) float64 { return a + b }, func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] + rhs[k]
		}
	})
	_ = defineArithmetic("-", "Subtract", "SubtractFrom", func(a, b float64) float64 { return a - b }, func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] - rhs[k]
		}
	})
	_ = defineArithmetic("*", "Multiply", "Multiply", func(a, b float64) float64 { return a * b }, func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] * rhs[k]
		}
	})
	_ = defineArithmetic("/", "Divide", "DivideInto", func(a, b float64) float64 { return a / b }, func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] / rhs[k]
		}
	})
	_ = define(&Function{MapFunc: plan.MapFunc{Name: "%", Args: 1}, arithmetic: mod, NoGPU: noGPUMath})
	_ = define(&Function{MapFunc: plan.MapFunc{Name: "^", Args: 1}, arithmetic: pow, NoGPU: noGPUMath})
	_ = define(&Function{MapFunc: plan.MapFunc{Name: "atan2", Args: 1}, arithmetic: atan2, NoGPU: noGPUMath})
)

// mod is math.Mod. The quotient of a and b is rounded, so that what is left may be less than nothing by
// as much as b lacks, which is exact as every remainder is.
func mod(a, b float64) float64 {
	q := a / b
	if !(q > -1<<53 && q < 1<<53) || b-b != 0 {
		return math.Mod(a, b)
	}
	left := math.FMA(-math.Trunc(q), b, a)
	if left != 0 && left < 0 != (a < 0) {
		left += math.Copysign(b, a)
	}
	return math.Copysign(left, a)
}

// atan2 is math.Atan2, which looks at all special cases first.
func atan2(y, x float64) float64 {
	if y > 0 && x > 0 && y <= math.MaxFloat64 && x <= math.MaxFloat64 {
		return math.Atan(y / x)
	}
	return math.Atan2(y, x)
}

// pow is math.Pow, which rounds a square as often as a product is rounded, if that is a normal number.
func pow(a, b float64) float64 {
	if square := a * a; b == 2 && square >= 0x1p-1022 && square <= math.MaxFloat64 {
		return square
	}
	return math.Pow(a, b)
}

// defineArithmetic defines an operator: swapped is what it is for kernels with its sides swapped.
func defineArithmetic(name, policy, swapped string, f func(a, b float64) float64, loop func(out, lhs, rhs []float64)) *plan.MapFunc {
	return define(&Function{
		MapFunc: plan.MapFunc{Name: name, Args: 1}, arithmetic: f, loop: loop,
		GPU: abi.Policy{Kernel: abi.ByMap, Name: policy}, Swapped: abi.Policy{Kernel: abi.ByMap, Name: swapped},
	})
}

var (
	_ = defineComparison("==", "==", "Equal", "Equal", dense.Equal)
	_ = defineComparison("!=", "!=", "Unequal", "Unequal",
		func(lhs, rhs []float64) uint64 { return ^dense.Equal(lhs, rhs) })
	_ = defineComparison(">", "<", "Greater", "Less", dense.Greater)
	_ = defineComparison("<", ">", "Less", "Greater",
		func(lhs, rhs []float64) uint64 { return dense.Greater(rhs, lhs) })
	_ = defineComparison(">=", "<=", "AtLeast", "AtMost", dense.AtLeast)
	_ = defineComparison("<=", ">=", "AtMost", "AtLeast",
		func(lhs, rhs []float64) uint64 { return dense.AtLeast(rhs, lhs) })
)

// defineComparison defines a comparison: mirror and swapped are what it is with its sides swapped,
// in PromQL and for kernels.
func defineComparison(name, mirror, policy, swapped string, mask func(lhs, rhs []float64) uint64) *plan.MapFunc {
	return define(&Function{
		MapFunc: plan.MapFunc{Name: name, Args: 1, Compares: true}, mask: mask, mirror: mirror,
		GPU: abi.Policy{Kernel: abi.ByMap, Name: policy}, Swapped: abi.Policy{Kernel: abi.ByMap, Name: swapped},
	})
}

var (
	_ = defineClock("minute", func(s uint64) uint64 { return s % 3600 / 60 })
	_ = defineClock("hour", func(s uint64) uint64 { return s % secondsPerDay / 3600 })
	_ = defineClock("day_of_week", func(s uint64) uint64 { return (s/secondsPerDay + uint64(time.Wednesday)) % 7 })
	_ = defineDate("day_of_month", func(d date) int64 { return d.day })
	_ = defineDate("day_of_year", func(d date) int64 {
		if d.month > 2 {
			return d.fromMarch + 60 + d.leap()
		}
		return d.fromMarch - 305
	})
	_ = defineDate("month", func(d date) int64 { return d.month })
	_ = defineDate("year", func(d date) int64 { return d.year })
	_ = defineDate("days_in_month", func(d date) int64 {
		if d.month == 2 {
			return 28 + d.leap()
		}
		return 30 + (d.month+d.month>>3)&1
	})
)

// StepTime is the function timestamp of anything but a selector: the time of the step.
var StepTime = defineUnnamed(&Function{MapFunc: plan.MapFunc{Name: "timestamp"}, NoGPU: "it is the time of the step, whatever the value"})

// Package time counts in seconds from 1 March, a Wednesday, of a year so long ago that the sum is never
// negative. What overflows comes to the same here.
const (
	secondsPerDay = 24 * 60 * 60
	absoluteYears = 292277022400
	epoch         = (absoluteYears*365.2425 - 60 + 1970*365 + 1969/4 - 1969/100 + 1969/400 + 1) * secondsPerDay // 1970
)

// date is a day of the calendar.
type date struct {
	year, month, day int64
	fromMarch        int64 // days since 1 March
}

// dateOf is the date of a number of seconds since then, as package time finds it: by Neri and Schneider.
func dateOf(seconds uint64) date {
	quarters := 4*(seconds/secondsPerDay) + 3
	century, rest := quarters/146097, 2939745*(quarters%146097|3)
	fromMarch := rest & (1<<32 - 1) / 2939745 / 4
	month := 2141*fromMarch + 197913
	d := date{int64(100*century+rest>>32) - absoluteYears, int64(month >> 16), int64(month&(1<<16-1)/2141) + 1, int64(fromMarch)}
	if fromMarch >= 306 {
		d.year, d.month = d.year+1, d.month-12
	}
	return d
}

// leap is 1 in a leap year.
func (d date) leap() int64 {
	if d.year%4 == 0 && (d.year%100 != 0 || d.year%400 == 0) {
		return 1
	}
	return 0
}

// defineDate defines a function that tells of a date.
func defineDate(name string, tells func(date) int64) *plan.MapFunc {
	return defineOfTime(name, func(v float64) float64 { return float64(tells(dateOf(uint64(int64(v)) + epoch))) })
}

// defineClock defines a function that tells of the seconds since then.
func defineClock(name string, tells func(seconds uint64) uint64) *plan.MapFunc {
	return defineOfTime(name, func(v float64) float64 { return float64(tells(uint64(int64(v)) + epoch)) })
}

func defineOfTime(name string, f func(float64) float64) *plan.MapFunc {
	return defineUnary(name, f, abi.Policy{}, "kernels know no calendar")
}

// Negate is unary minus, which has no name in PromQL.
var Negate = define(&Function{
	MapFunc: plan.MapFunc{Name: "neg", InPlace: true},
	value:   unary(func(v float64) float64 { return -v }),
	GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Negate"},
})

var (
	_ = defineUnary("abs", math.Abs, abi.Policy{Kernel: abi.ByMap, Name: "Abs"}, "")
	_ = defineUnary("ceil", math.Ceil, abi.Policy{Kernel: abi.ByMap, Name: "Ceil"}, "")
	_ = defineUnary("floor", math.Floor, abi.Policy{Kernel: abi.ByMap, Name: "Floor"}, "")
	_ = defineUnary("sqrt", math.Sqrt, abi.Policy{Kernel: abi.ByMap, Name: "Root"}, "")
	_ = defineVector("exp", math.Exp, exact.Exp)
	_ = defineVector("ln", math.Log, exact.Log)
	_ = defineVector("log2", math.Log2, exact.Log2)
	_ = defineVector("log10", math.Log10, exact.Log10)
	_ = defineUnary("sin", sin, abi.Policy{}, noGPUMath)
	_ = defineUnary("cos", cos, abi.Policy{}, noGPUMath)
	_ = defineUnary("tan", tan, abi.Policy{}, noGPUMath)
	_ = defineUnary("asin", math.Asin, abi.Policy{}, noGPUMath)
	_ = defineUnary("acos", math.Acos, abi.Policy{}, noGPUMath)
	_ = defineUnary("atan", math.Atan, abi.Policy{}, noGPUMath)
	_ = defineVector("sinh", math.Sinh, exact.Sinh)
	_ = defineVector("cosh", math.Cosh, exact.Cosh)
	_ = defineUnary("tanh", math.Tanh, abi.Policy{}, noGPUMath)
	_ = defineVector("asinh", math.Asinh, exact.Asinh)
	_ = defineVector("acosh", math.Acosh, exact.Acosh)
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
			return func(v float64) float64 {
				if v != v || low != low || high != high {
					return math.Max(low, math.Min(high, v))
				}
				return max(low, min(high, v)) // the same of numbers, without calls
			}
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

// defineVector defines a function of Go's that there is of four values, too.
func defineVector(name string, f func(float64) float64, vector exact.Vector) *plan.MapFunc {
	return define(&Function{MapFunc: plan.MapFunc{Name: name}, value: unary(f), vector: vector, NoGPU: noGPUMath})
}

// unary is a function without constants as the value of a Function.
func unary(f func(float64) float64) func([]float64) func(float64) float64 {
	return func([]float64) func(float64) float64 { return f }
}
