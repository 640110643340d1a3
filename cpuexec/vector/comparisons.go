package vector

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the operators that keep a value or drop it.

var (
	_ = defineComparison("==", "==", "Equal", "Equal", func(a, b float64) bool { return a == b }, dense.Equal)
	_ = defineComparison("!=", "!=", "Unequal", "Unequal", func(a, b float64) bool { return a != b },
		func(lhs, rhs []float64) uint64 { return ^dense.Equal(lhs, rhs) })
	_ = defineComparison(">", "<", "Greater", "Less", func(a, b float64) bool { return a > b }, dense.Greater)
	_ = defineComparison("<", ">", "Less", "Greater", func(a, b float64) bool { return a < b },
		func(lhs, rhs []float64) uint64 { return dense.Greater(rhs, lhs) })
	_ = defineComparison(">=", "<=", "AtLeast", "AtMost", func(a, b float64) bool { return a >= b }, dense.AtLeast)
	_ = defineComparison("<=", ">=", "AtMost", "AtLeast", func(a, b float64) bool { return a <= b },
		func(lhs, rhs []float64) uint64 { return dense.AtLeast(rhs, lhs) })
)

// defineComparison defines a comparison: mirror and swapped are what it is with its sides swapped,
// in PromQL and for kernels.
func defineComparison(name, mirror, policy, swapped string, holds func(a, b float64) bool, mask func(lhs, rhs []float64) uint64) *plan.MapFunc {
	return define(&Function{
		MapFunc: plan.MapFunc{Name: name, Args: 1, Compares: true}, holds: holds, mask: mask, mirror: mirror,
		GPU: abi.Policy{Kernel: abi.ByMap, Name: policy}, Swapped: abi.Policy{Kernel: abi.ByMap, Name: swapped},
	})
}
