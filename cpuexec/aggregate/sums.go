package aggregate

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines sum and avg: compensated sums.

var (
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "sum"},
		adds: &adding{
			val: true, comp: true,
			first: func(a *cells, c int, f float64) { a.val[c] = f },
			next:  func(a *cells, c int, f float64) { a.val[c], a.comp[c] = kahansum.Inc(f, a.val[c], a.comp[c]) },
			more:  (*cells).sums,
			results: func(a *cells, c int, out []float64) {
				val, comp := a.val[c:c+len(out)], a.comp[c:c+len(out)]
				for k := range out {
					out[k] = val[k] + comp[k]
				}
			},
		},
		GPU: abi.Policy{Kernel: abi.ByOperator, Name: "Sum"},
	})
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "avg"},
		adds:          mean,
		GPU:           abi.Policy{Kernel: abi.ByOperator, Name: "Avg"},
	})
)

// mean is the arithmetic of avg.
var mean = &adding{
	val: true, comp: true, n: true,
	first: func(a *cells, c int, f float64) { a.val[c], a.n[c] = f, 1 },
	next:  (*cells).addToMean,
	more:  (*cells).means,
	results: func(a *cells, c int, out []float64) {
		for k := range out {
			if sum, comp := a.val[c+k], a.comp[c+k]; a.incr[c+k] {
				out[k] = sum + comp
			} else {
				out[k] = float64(sum/a.n[c+k]) + float64(comp/a.n[c+k])
			}
		}
	},
}

// addToMean adds a further value to a mean.
func (a *cells) addToMean(c int, f float64) {
	a.n[c]++
	if !a.incr[c] {
		val, comp := kahansum.Inc(f, a.val[c], a.comp[c])
		if !math.IsInf(val, 0) {
			a.val[c], a.comp[c] = val, comp
			return
		}
		// The sum overflows: go on with a running mean, as Prometheus does.
		a.incr[c] = true
		a.running.Store(true)
		a.val[c] /= a.n[c] - 1
		a.comp[c] /= a.n[c] - 1
	}
	n := a.n[c]
	q := (n - 1) / n
	a.val[c], a.comp[c] = kahansum.Inc(f/n, q*a.val[c], q*a.comp[c])
}

// sums adds values to sums. The error of an addition, by Knuth's formula, is the
// one that Neumaier's has (see twoSum); where the sum is infinite or NaN, so is
// the error, and the value is added anew as Prometheus does.
func (a *cells) sums(from, to int, in []float64) {
	val, comp := a.val[from:to], a.comp[from:to]
	for k := 0; k < len(in); {
		k += exact.AddFinite(val[k:], comp[k:], in[k:])
		for end := min(k+exact.Lanes, len(in)); k < end; k++ {
			s, f := val[k], in[k]
			t := s + f
			b := t - s
			e := (s - (t - b)) + (f - b)
			if notFinite(e) {
				val[k], comp[k] = kahansum.Inc(f, s, comp[k])
				continue
			}
			val[k] = t
			comp[k] += e
		}
	}
}

// means adds values to the sums and counts that means are made of.
func (a *cells) means(from, to int, in []float64) {
	val, comp, n := a.val[from:to], a.comp[from:to], a.n[from:to]
	for k := 0; k < len(in); {
		if !a.running.Load() {
			added := exact.AddFinite(val[k:], comp[k:], in[k:])
			for i := range added {
				n[k+i]++
			}
			k += added
		}
		for end := min(k+exact.Lanes, len(in)); k < end; k++ {
			a.addToMean(from+k, in[k])
		}
	}
}

// notFinite reports whether f is infinite or NaN.
func notFinite(f float64) bool {
	const exponent = 0x7ff << 52
	return math.Float64bits(f)&exponent == exponent
}
