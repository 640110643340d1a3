package vector

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// kernel returns the code of a binary operator: it writes the results for a
// stretch of steps, from the given one on, at which both sides have a value. A
// comparison yields 0 or 1 with asBool, else it keeps the left side's value.
func kernel(op *plan.MapFunc, asBool bool) func(out dense.Row, first int, lhs, rhs []float64) {
	if op.Compares {
		keep := Of(op).mask
		if asBool {
			return func(out dense.Row, first int, lhs, rhs []float64) { truths(out, first, lhs, rhs, keep) }
		}
		return func(out dense.Row, first int, lhs, rhs []float64) { filter(out, first, lhs, rhs, keep) }
	}
	compute := Of(op).loop
	if compute == nil {
		f := Of(op).arithmetic
		compute = func(out, lhs, rhs []float64) {
			for k := range out {
				out[k] = f(lhs[k], rhs[k])
			}
		}
	}
	return func(out dense.Row, first int, lhs, rhs []float64) {
		compute(out.Values[first:first+len(lhs)], lhs, rhs)
		out.Mark(first, len(lhs))
	}
}

// filter keeps the left side's values for which a comparison holds.
func filter(out dense.Row, first int, lhs, rhs []float64, keep func(lhs, rhs []float64) uint64) {
	copy(out.Values[first:], lhs)
	dense.EachWord(first, len(lhs), func(w int, mask uint64) {
		k, n := max(w<<6-first, 0), min(w<<6+64-first, len(lhs))
		shift := (first + k) & 63
		out.Present[w] |= keep(lhs[k:n], rhs[k:n]) << shift & mask
	})
}

// truths writes 1 where a comparison holds and 0 where it does not.
func truths(out dense.Row, first int, lhs, rhs []float64, keep func(lhs, rhs []float64) uint64) {
	for k := 0; k < len(lhs); k += 64 {
		n := min(k+64, len(lhs))
		m := keep(lhs[k:n], rhs[k:n])
		for i := range n - k {
			out.Values[first+k+i] = float64(m >> i & 1)
		}
	}
	out.Mark(first, len(lhs))
}
