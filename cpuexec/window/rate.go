package window

import (
	"math"
	"slices"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions of the difference between a window's first and last sample.

var (
	_ = defineRate(plan.WindowFunc{Name: "rate", Counter: true, StartTime: true}, counterRate, "Rate", Counter)
	_ = defineRate(plan.WindowFunc{Name: "increase", Counter: true, StartTime: true}, counterIncrease, "Increase", Counter)
	_ = defineRate(plan.WindowFunc{Name: "delta"}, gaugeDelta, "Delta", FirstLast)
)

func defineRate(f plan.WindowFunc, kind difference, policy string, sees Sees) *plan.WindowFunc {
	f.Modifiers = []plan.Modifier{plan.Anchored, plan.Smoothed}
	definition := &Function{
		WindowFunc: f,
		Plain:      func(w *Window) (float64, bool) { return w.difference(kind) },
		Fast:       func(s *Evaluator) (int, bool) { return s.extrapolated(kind, s.resetsOf(kind)), true },
		Extended:   func(s *Evaluator, e *frame.Edges) { s.edgeDifferences(e, kind) },
		Reads:      Ends,
		Sees:       sees,
		PerSecond:  kind == counterRate,
		GPU:        abi.Policy{Kernel: abi.ByRate, Name: policy},
	}
	if f.StartTime {
		definition.Started = func(s *Evaluator) int { return s.increases(kind) }
	}
	return define(definition)
}

// resetsOf returns the samples at which a function of a counter makes up for a reset.
func (s *Evaluator) resetsOf(kind difference) []int32 {
	if kind == gaugeDelta {
		return nil
	}
	return s.resets()
}

// difference is Prometheus's extrapolatedRate for floats.
func (w *Window) difference(kind difference) (float64, bool) {
	n := len(w.Values)
	if n < 2 {
		return 0, false
	}
	first, counter := w.Values[0], kind != gaugeDelta
	increase := w.Values[n-1] - first
	for i, v := range w.Values[1:] {
		if before := w.Values[i]; counter && v < before {
			increase += before
		}
	}
	toStart, toEnd := float64(w.Times[0]-w.Start())/1000, float64(w.End()-w.Times[n-1])/1000
	covered := float64(w.Times[n-1]-w.Times[0]) / 1000
	spacing := covered / float64(n-1)
	threshold := float64(spacing * 1.1)
	if toStart >= threshold {
		toStart = spacing / 2
	}
	if counter && increase > 0 && first >= 0 { // which is never extrapolated below zero
		toStart = math.Min(toStart, float64(covered*(first/increase)))
	}
	if toEnd >= threshold {
		toEnd = spacing / 2
	}
	factor := (covered + toStart + toEnd) / covered
	if seconds := kind.seconds(w.span.Width); seconds != 0 {
		factor /= seconds
	}
	return float64(increase * factor), true
}

// difference says what extrapolated makes of a window's first and last sample, or
// lastPairs of its last two.
type difference int

const (
	gaugeDelta      difference = iota // their difference
	counterIncrease                   // the same, with resets made up for and never below zero
	counterRate                       // that, per second
	gaugeLast                         // the difference of the last two samples
	counterLast                       // the same, per second and with resets made up for
)

// seconds is the length of a window of width ms where it divides the value, and else 0.
func (kind difference) seconds(width int64) float64 {
	if kind == counterRate {
		return frame.SecondsOf(width)
	}
	return 0
}

// extrapolated fills out with the difference between the first and the last
// sample of each step's window, extrapolated to the window's ends. It is
// Prometheus's extrapolatedRate for floats, operation by operation. resets are
// the samples that are less than the one before; a gauge has none. It returns the
// number of steps with a value.
//
//	increase = (v[last] - v[first] + sum of v[r-1] over resets r) *
//	           (covered + to start + to end) / covered
func (s *Evaluator) extrapolated(kind difference, resets []int32) (points int) {
	fr, in, split, out := s.fr, &s.in, s.split, s.out
	e := fr.Extrapolation(kind.seconds(fr.Span.Width))
	copy(out.Present, e.Pairs)
	if len(in.Starts) == 0 && oftenReset*len(resets) > int(fr.End()-fr.First()) {
		if strides, rest := fr.Strides(); strides != nil {
			s.risesInRows(e, resets, strides, rest)
			return e.Points
		}
	}
	vals, his := out.Values[:len(fr.Hi)], fr.Hi
	for k, r := fr.From, 0; k < fr.To; { // resets[r:] come after the window's first sample
		plain := fr.To
		if r < len(resets) {
			plain = k + sort.Search(fr.To-k, func(n int) bool { return his[k+n] > resets[r] })
		}
		mid := min(max(split, k), plain)
		s.differences(e, kind, true, k, mid)
		s.differences(e, kind, false, mid, plain)
		for k = plain; k < fr.To; k++ {
			lo, hi := fr.Lo[k], his[k]
			for r < len(resets) && resets[r] <= lo {
				r++
			}
			if r == len(resets) || resets[r] >= hi {
				break
			}
			vals[k] = s.risen(e, k, resets[r:])
		}
	}
	return e.Points
}

// risen is the value of step k, whose window resets begin in.
func (s *Evaluator) risen(e *frame.Extrapolation, k int, resets []int32) float64 {
	hi, first := s.fr.Hi[k], s.in.At(s.fr.Lo[k])
	increase := s.in.At(hi-1) - first
	for _, r := range resets {
		if r >= hi {
			break
		}
		increase += s.in.At(r - 1)
	}
	return float64(increase * e.FactorOf(k, first, increase))
}

// A counter that is reset once in this number of samples or more often, as gauges are, costs less
// where all samples are read, of several windows side by side.
const oftenReset = 6

// risesInRows is extrapolated for counters that are reset often, where windows lie in rows.
func (s *Evaluator) risesInRows(e *frame.Extrapolation, resets []int32, strides []frame.Stride, rest []int32) {
	s.in.Values = s.in.Values[len(s.in.Units):] // without what splitPacked has unpacked
	vs := s.values()
	s.strided(strides, func(st *frame.Stride, out []float64) {
		s.rows.Increases(out)
		for i, increase := range out {
			if k := st.From + i; increase == 0 {
				first, _ := slices.BinarySearch(resets, s.fr.Lo[k]+1)
				out[i] = s.risen(e, k, resets[first:])
			} else {
				out[i] = float64(increase * e.FactorOf(k, vs[s.fr.Lo[k]], increase))
			}
		}
	})
	for _, k := range rest {
		for len(resets) > 0 && resets[0] <= s.fr.Lo[k] {
			resets = resets[1:]
		}
		if s.fr.Hi[k]-s.fr.Lo[k] >= 2 {
			s.out.Values[k] = s.risen(e, int(k), resets)
		}
	}
}

// differences fills out with what extrapolated does for steps from from to to, the end
// excluded, in whose windows there is no reset: of packed samples or of others.
func (s *Evaluator) differences(e *frame.Extrapolation, kind difference, packed bool, from, to int) {
	fr, in, out := s.fr, &s.in, s.out.Values
	// How much beyond its increase times near a counter is not extrapolated below zero; a gauge always is.
	least := frame.Tiny
	if kind == gaugeDelta {
		least = math.Inf(-1)
	}
	for k := from; k < to; {
		lo, hi, factor, near := fr.Lo[k:to], fr.Hi[k:to], e.Factor[k:to], e.Near[k:to]
		if packed {
			k += packedIncreases(out[k:to], &in.Packed, lo, hi, factor, near, least)
		} else {
			k += floatIncreases(out[k:to], in.Values, lo, hi, factor, near, least)
		}
		for end := min(k+exact.Lanes, to); k < end; k++ {
			if lo, hi := fr.Lo[k], fr.Hi[k]; hi-lo >= 2 {
				first := in.At(lo)
				increase, factor := in.At(hi-1)-first, e.Factor[k]
				if kind != gaugeDelta {
					factor = e.FactorOf(k, first, increase)
				}
				out[k] = float64(increase * factor)
			}
		}
	}
}
