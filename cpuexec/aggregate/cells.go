package aggregate

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// cells are the state of some groups, steps a group.
type cells struct {
	op   *plan.AggregateFunc
	val  []float64
	comp []float64 // of sum and avg the compensation
	n    []float64
	incr []bool // avg: the sum would have overflowed, val is a running mean
	// running says that one of incr is set: by whoever adds at that step, too.
	running atomic.Bool
}

func newCells(op *plan.AggregateFunc, n int) *cells {
	a := &cells{op: op}
	switch op.Name {
	case "sum":
		a.val, a.comp = make([]float64, n), make([]float64, n)
	case "avg":
		a.val, a.comp, a.n = make([]float64, n), make([]float64, n), make([]float64, n)
		a.incr = make([]bool, n)
	case "min", "max":
		a.val = make([]float64, n)
	case "count":
		a.n = make([]float64, n)
	case "stddev", "stdvar":
		// val is the sum of squared distances from the mean, comp the mean.
		a.val, a.comp, a.n = make([]float64, n), make([]float64, n), make([]float64, n)
	}
	return a
}

// first starts a group at one step.
func (a *cells) first(c int, f float64) {
	if a.val != nil {
		a.val[c] = f
	}
	if a.n != nil {
		a.n[c] = 1
	}
	if a.op.Name == "stddev" || a.op.Name == "stdvar" {
		a.val[c], a.comp[c] = 0, f
		if math.IsNaN(f) || math.IsInf(f, 0) {
			a.val[c] = math.NaN()
		}
	}
}

// next adds a further value to a group at one step.
func (a *cells) next(c int, f float64) {
	switch a.op.Name {
	case "sum":
		a.val[c], a.comp[c] = kahansum.Inc(f, a.val[c], a.comp[c])
	case "avg":
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
	case "min":
		if a.val[c] > f || math.IsNaN(a.val[c]) {
			a.val[c] = f
		}
	case "max":
		if a.val[c] < f || math.IsNaN(a.val[c]) {
			a.val[c] = f
		}
	case "count":
		a.n[c]++
	case "stddev", "stdvar":
		a.n[c]++
		delta := f - a.comp[c]
		a.comp[c] += delta / a.n[c]
		a.val[c] += float64(delta * (f - a.comp[c]))
	}
}

// results writes the aggregates of consecutive cells, the first of which is c,
// to out. Those of cells without a value mean nothing.
func (a *cells) results(c int, out []float64) {
	switch a.op.Name {
	case "sum":
		val, comp := a.val[c:c+len(out)], a.comp[c:c+len(out)]
		for k := range out {
			out[k] = val[k] + comp[k]
		}
	case "avg":
		for k := range out {
			if sum, comp := a.val[c+k], a.comp[c+k]; a.incr[c+k] {
				out[k] = sum + comp
			} else {
				out[k] = float64(sum/a.n[c+k]) + float64(comp/a.n[c+k])
			}
		}
	case "count":
		copy(out, a.n[c:])
	case "group":
		for k := range out {
			out[k] = 1
		}
	case "stdvar":
		for k := range out {
			out[k] = a.val[c+k] / a.n[c+k]
		}
	case "stddev":
		for k := range out {
			out[k] = math.Sqrt(a.val[c+k] / a.n[c+k])
		}
	default:
		copy(out, a.val[c:])
	}
}

// This file adds stretches of values to cells that all have one already: what an
// aggregation does most. Each loop does what cells.next does to one of them.

// notFinite reports whether f is infinite or NaN.
func notFinite(f float64) bool {
	const exponent = 0x7ff << 52
	return math.Float64bits(f)&exponent == exponent
}

// full adds the values of steps [lo, hi), none of which is the first of its
// group.
func (a *cells) full(base, lo, hi int, vals []float64) {
	in, from, to := vals[lo:hi], base+lo, base+hi
	switch a.op.Name {
	case "sum":
		a.sums(from, to, in)
	case "avg":
		a.means(from, to, in)
	case "min":
		least(a.val[from:to], in)
	case "max":
		greatest(a.val[from:to], in)
	case "count":
		n := a.n[from:to]
		for k := range n {
			n[k]++
		}
	case "stddev", "stdvar":
		a.deviations(from, to, in)
	}
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
			a.next(from+k, in[k])
		}
	}
}

// least keeps the smaller values. A NaN gives way to anything.
func least(val, in []float64) {
	val = val[:len(in)]
	for k, f := range in {
		v, bits := val[k], math.Float64bits(val[k])
		if v > f {
			bits = math.Float64bits(f)
		}
		if v != v {
			bits = math.Float64bits(f)
		}
		val[k] = math.Float64frombits(bits)
	}
}

// greatest keeps the larger values. A NaN gives way to anything.
func greatest(val, in []float64) {
	val = val[:len(in)]
	for k, f := range in {
		v, bits := val[k], math.Float64bits(val[k])
		if v < f {
			bits = math.Float64bits(f)
		}
		if v != v {
			bits = math.Float64bits(f)
		}
		val[k] = math.Float64frombits(bits)
	}
}

// deviations adds values to the means and squared distances from them.
func (a *cells) deviations(from, to int, in []float64) {
	val, mean, n := a.val[from:to], a.comp[from:to], a.n[from:to]
	val, mean, n = val[:len(in)], mean[:len(in)], n[:len(in)]
	for k, f := range in {
		n[k]++
		delta := f - mean[k]
		m := mean[k] + delta/n[k]
		mean[k] = m
		val[k] += float64(delta * (f - m))
	}
}
