// Package digest computes functions of windows of many chunks from digests of these.
//
// A window of which most chunks are digests (column.Digested) goes in, the function's value comes
// out: with the bits that it has when all samples are evaluated, or the answer that these are
// uncertain. A function whose value depends on all samples in another way than their order, number,
// falls, changes, extremes or sum has no Form.
//
// Start with Form.
package digest

import (
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Form is how a function is computed.
type Form struct {
	Kind column.Kind // of digests that it takes
	// Value reports false where the bits are uncertain, or too little is known.
	Value func(w *column.Digested) (v float64, ok bool)
}

// forms are those of all functions that have one, by the name of the policy by which kernels compute
// them: that says what is computed, whatever PromQL calls it.
var forms = map[string]*Form{
	"Present":    always(func(*column.Digested) float64 { return 1 }),
	"Number":     always(func(w *column.Digested) float64 { return float64(w.Samples()) }),
	"Oldest":     always(func(w *column.Digested) float64 { return w.Head[0] }),
	"Newest":     always(last),
	"OldestTime": always(func(w *column.Digested) float64 { return float64(w.FirstTime) / 1000 }),
	// Prometheus's engine never answers a time before 1970.
	"NewestTime": always(func(w *column.Digested) float64 { return max(0, float64(w.LastTime)/1000) }),
	"Delta":      {Value: func(w *column.Digested) (float64, bool) { return difference(w, false, 0) }},
	"Increase":   {Kind: column.Falls, Value: func(w *column.Digested) (float64, bool) { return difference(w, true, 0) }},
	"Rate": {Kind: column.Falls, Value: func(w *column.Digested) (float64, bool) {
		return difference(w, true, frame.SecondsOf(w.End-w.Start))
	}},
	"Resets":  {Kind: column.Falls, Value: resets},
	"Changes": {Kind: column.Changes, Value: changes},
	"Min":     {Kind: column.Extremes, Value: func(w *column.Digested) (float64, bool) { return extreme(w, true), true }},
	"Max":     {Kind: column.Extremes, Value: func(w *column.Digested) (float64, bool) { return extreme(w, false), true }},
	"Sum":     {Kind: column.Sums, Value: sum},
	"Avg":     {Kind: column.Sums, Value: mean},
}

// Of is the form of what kernels compute by that policy, or nil.
func Of(policy abi.Policy) *Form { return forms[policy.Name] }

// always is the form of a function that needs only what all digests have.
func always(value func(w *column.Digested) float64) *Form {
	return &Form{Value: func(w *column.Digested) (float64, bool) { return value(w), true }}
}

func last(w *column.Digested) float64 { return w.Tail[len(w.Tail)-1] }

// falls calls do with the values before all samples of a window that are less than the one before,
// in order, and reports whether they are known.
func falls(w *column.Digested, do func(before float64)) bool {
	between, ok := w.Falls()
	if !ok {
		return false
	}
	fallsOf(w.Head, do)
	for _, before := range between {
		do(before)
	}
	fallsOf(w.Tail, do)
	return true
}

func fallsOf(vs []float64, do func(before float64)) {
	for i := 1; i < len(vs); i++ {
		if before := vs[i-1]; vs[i] < before {
			do(before)
		}
	}
}

// difference is that of the last sample and the first, extrapolated to the window's ends as
// Prometheus does; of a counter with what it had before each reset added.
func difference(w *column.Digested, counter bool, seconds float64) (v float64, ok bool) {
	first := w.Head[0]
	increase := last(w) - first
	if counter && !falls(w, func(before float64) { increase += before }) {
		return 0, false
	}
	x := frame.Extent{Start: w.Start, First: w.FirstTime, Last: w.LastTime, End: w.End, Samples: w.Samples()}
	return float64(increase * x.Factor(counter, seconds, first, increase)), true
}

func resets(w *column.Digested) (float64, bool) {
	n := 0
	ok := falls(w, func(float64) { n++ })
	return float64(n), ok
}

func changes(w *column.Digested) (float64, bool) {
	n := w.Changes()
	for _, vs := range [2][]float64{w.Head, w.Tail} {
		for i := 1; i < len(vs); i++ {
			if before, v := vs[i-1], vs[i]; before != v && (before == before || v == v) { // NaN is no other than NaN
				n++
			}
		}
	}
	return float64(n), true
}

func extreme(w *column.Digested, smallest bool) float64 {
	least, most := w.Extremes()
	if smallest {
		most = least
	}
	parts := [...]float64{column.Extreme(w.Head, smallest), column.Extreme(most, smallest), column.Extreme(w.Tail, smallest)}
	return column.Extreme(parts[:], smallest)
}
