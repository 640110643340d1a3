package window

import (
	"math"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions of the difference between a window's first and last sample.

var (
	_ = defineRate(plan.WindowFunc{Name: "rate", Counter: true, StartTime: true}, counterRate, "Rate")
	_ = defineRate(plan.WindowFunc{Name: "increase", Counter: true, StartTime: true}, counterIncrease, "Increase")
	_ = defineRate(plan.WindowFunc{Name: "delta"}, gaugeDelta, "Delta")
)

func defineRate(f plan.WindowFunc, kind difference, policy string) *plan.WindowFunc {
	f.Modifiers = []plan.Modifier{plan.Anchored, plan.Smoothed}
	definition := &Function{
		WindowFunc: f,
		Plain:      func(w *Window) (float64, bool) { return w.difference(kind) },
		Fast:       func(s *Evaluator) (int, bool) { return s.extrapolated(kind, s.resetsOf(kind)), true },
		Extended:   func(s *Evaluator, e *edges) { e.differences(s, kind) },
		Reads:      Ends,
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
	toStart, toEnd := float64(w.Times[0]-w.Start)/1000, float64(w.End-w.Times[n-1])/1000
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
	if kind == counterRate {
		factor /= secondsOf(w.End - w.Start)
	}
	return float64(increase * factor), true
}
