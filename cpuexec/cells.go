package cpuexec

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

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
