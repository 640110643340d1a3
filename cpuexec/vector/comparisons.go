package vector

import (
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the operators that keep a value or drop it.

var (
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: "==", Args: 1, Compares: true},
		holds:   func(a, b float64) bool { return a == b },
		mask:    equal,
		mirror:  "==",
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Equal"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "Equal"},
	})
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: "!=", Args: 1, Compares: true},
		holds:   func(a, b float64) bool { return a != b },
		mask:    func(lhs, rhs []float64) uint64 { return ^equal(lhs, rhs) },
		mirror:  "!=",
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Unequal"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "Unequal"},
	})
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: ">", Args: 1, Compares: true},
		holds:   func(a, b float64) bool { return a > b },
		mask:    greater,
		mirror:  "<",
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Greater"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "Less"},
	})
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: "<", Args: 1, Compares: true},
		holds:   func(a, b float64) bool { return a < b },
		mask:    func(lhs, rhs []float64) uint64 { return greater(rhs, lhs) },
		mirror:  ">",
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "Less"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "Greater"},
	})
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: ">=", Args: 1, Compares: true},
		holds:   func(a, b float64) bool { return a >= b },
		mask:    atLeast,
		mirror:  "<=",
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "AtLeast"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "AtMost"},
	})
	_ = define(&Function{
		MapFunc: plan.MapFunc{Name: "<=", Args: 1, Compares: true},
		holds:   func(a, b float64) bool { return a <= b },
		mask:    func(lhs, rhs []float64) uint64 { return atLeast(rhs, lhs) },
		mirror:  ">=",
		GPU:     abi.Policy{Kernel: abi.ByMap, Name: "AtMost"},
		Swapped: abi.Policy{Kernel: abi.ByMap, Name: "AtLeast"},
	})
)

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
