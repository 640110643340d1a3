package vector

import "github.com/promwarp/promwarp/plan"

// constant is a constant as the values of one side of an operator, at up to 64 steps.
type constant [64]float64

func newConstant(v float64) *constant {
	c := new(constant)
	for k := range c {
		c[k] = v
	}
	return c
}

// withConstant returns a loop that applies an arithmetic operator with a constant
// in place to up to 64 values, or nil if the operator is not worth one.
func withConstant(m *plan.Map) func(vals []float64) {
	loop, c := Of(m.Func).loop, newConstant(m.Args[0])
	switch {
	case loop == nil:
		return nil
	case m.Swap && Of(m.Func).Swapped != Of(m.Func).GPU: // it does not commute
		return func(vals []float64) { loop(vals, c[:len(vals)], vals) }
	}
	return func(vals []float64) { loop(vals, vals, c[:len(vals)]) }
}

// holdsFor returns the comparison of up to 64 values with m's constant: bit k of
// the result says that it holds for value k.
func holdsFor(m *plan.Map) func(vals []float64) uint64 {
	mask, c := Of(m.Func).mask, newConstant(m.Args[0])
	if m.Swap {
		return func(vals []float64) uint64 { return mask(c[:len(vals)], vals) }
	}
	return func(vals []float64) uint64 { return mask(vals, c[:len(vals)]) }
}
