package window

import (
	"math"
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
		Fast:       func(s *Evaluator) (int, bool) { return s.differenceOf(kind), true },
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
	fr, split, out := s.fr, s.split, s.out
	e := fr.Extrapolation(kind.seconds(fr.Span.Width))
	copy(out.Present, e.Pairs)
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
			first := s.in.At(lo)
			increase := s.in.At(hi-1) - first
			for i := r; i < len(resets) && resets[i] < hi; i++ {
				increase += s.in.At(resets[i] - 1)
			}
			vals[k] = float64(increase * e.FactorOf(k, first, increase))
		}
	}
	return e.Points
}

// differenceOf is extrapolated, or rises where the first samples are of a counter that is reset once in
// six or more often, as gauges are: of several windows that costs less, though all samples are read.
func (s *Evaluator) differenceOf(kind difference) (points int) {
	first, falls := s.fr.First(), int32(0)
	end := min(s.fr.End(), first+18)
	for i := first + 1; i < end && (falls > 0 || i <= first+6); i++ {
		if s.in.At(i) < s.in.At(i-1) {
			falls++
		}
	}
	if kind != gaugeDelta && s.fr.Span.Grid.Steps > 1 && 6*falls > end-first {
		return s.rises(kind)
	}
	return s.extrapolated(kind, s.resetsOf(kind))
}

// rises is extrapolated of windows side by side.
func (s *Evaluator) rises(kind difference) (points int) {
	e := s.fr.Extrapolation(kind.seconds(s.fr.Span.Width))
	copy(s.out.Present, e.Pairs)
	s.in.Values = s.in.Values[len(s.in.Units):] // without what splitPacked has unpacked
	vs := s.values()
	strides, rest := s.fr.Strides()
	s.strided(strides, func(st *frame.Stride, out []float64) {
		s.rows.Increases(out)
		for i, increase := range out {
			k := st.From + i
			window := vs[s.fr.Lo[k]:s.fr.Hi[k]]
			if increase == 0 { // it may be the zero below zero
				increase = exact.Rise(window, 1, window[len(window)-1]-window[0])
			}
			out[i] = float64(increase * e.FactorOf(k, window[0], increase))
		}
	})
	s.bounds.Groups(2, rest, func(g *frame.Group) {
		windows := g.Windows(vs)
		s.side.RisesAbreast(&windows, g.Common)
		for i, k := range g.Steps[:g.N] {
			increase, _ := s.side.Of(0, i)
			increase = exact.Rise(windows[i], g.Common, increase)
			s.out.Values[k] = float64(increase * e.FactorOf(int(k), windows[i][0], increase))
		}
	})
	return e.Points
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
