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
		keep := masks[op.Name]
		if asBool {
			return func(out dense.Row, first int, lhs, rhs []float64) { truths(out, first, lhs, rhs, keep) }
		}
		return func(out dense.Row, first int, lhs, rhs []float64) { filter(out, first, lhs, rhs, keep) }
	}
	compute, ok := loops[op.Name]
	if !ok {
		f := arithmetic[op.Name]
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

// loops are the operators worth a loop of their own.
var loops = map[string]func(out, lhs, rhs []float64){
	"+": func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] + rhs[k]
		}
	},
	"-": func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] - rhs[k]
		}
	},
	"*": func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] * rhs[k]
		}
	},
	"/": func(out, lhs, rhs []float64) {
		lhs, rhs = lhs[:len(out)], rhs[:len(out)]
		for k := range out {
			out[k] = lhs[k] / rhs[k]
		}
	},
}

// masks are the comparisons: bit k of the result says that they hold for the
// values k of up to 64 pairs.
var masks = map[string]func(lhs, rhs []float64) uint64{
	"==": equal,
	"!=": func(lhs, rhs []float64) uint64 { return ^equal(lhs, rhs) },
	">":  greater,
	"<":  func(lhs, rhs []float64) uint64 { return greater(rhs, lhs) },
	">=": atLeast,
	"<=": func(lhs, rhs []float64) uint64 { return atLeast(rhs, lhs) },
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
