package vector

import (
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the operators that keep a value or drop it.

var (
	_ = defineComparison("==", "==", "Equal", "Equal", func(a, b float64) bool { return a == b }, equal)
	_ = defineComparison("!=", "!=", "Unequal", "Unequal", func(a, b float64) bool { return a != b },
		func(lhs, rhs []float64) uint64 { return ^equal(lhs, rhs) })
	_ = defineComparison(">", "<", "Greater", "Less", func(a, b float64) bool { return a > b }, greater)
	_ = defineComparison("<", ">", "Less", "Greater", func(a, b float64) bool { return a < b },
		func(lhs, rhs []float64) uint64 { return greater(rhs, lhs) })
	_ = defineComparison(">=", "<=", "AtLeast", "AtMost", func(a, b float64) bool { return a >= b }, atLeast)
	_ = defineComparison("<=", ">=", "AtMost", "AtLeast", func(a, b float64) bool { return a <= b },
		func(lhs, rhs []float64) uint64 { return atLeast(rhs, lhs) })
)

// defineComparison defines a comparison: mirror and swapped are what it is with its sides swapped,
// in PromQL and for kernels.
func defineComparison(name, mirror, policy, swapped string, holds func(a, b float64) bool, mask func(lhs, rhs []float64) uint64) *plan.MapFunc {
	return define(&Function{
		MapFunc: plan.MapFunc{Name: name, Args: 1, Compares: true}, holds: holds, mask: mask, mirror: mirror,
		GPU: abi.Policy{Kernel: abi.ByMap, Name: policy}, Swapped: abi.Policy{Kernel: abi.ByMap, Name: swapped},
	})
}

func equal(lhs, rhs []float64) (m uint64) {
	for k, v := range lhs {
		if v == rhs[k] {
			m |= 1 << (k & 63)
		}
	}
	return m
}

func greater(lhs, rhs []float64) (m uint64) {
	for k, v := range lhs {
		if v > rhs[k] {
			m |= 1 << (k & 63)
		}
	}
	return m
}

func atLeast(lhs, rhs []float64) (m uint64) {
	for k, v := range lhs {
		if v >= rhs[k] {
			m |= 1 << (k & 63)
		}
	}
	return m
}
