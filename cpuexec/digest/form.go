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
	"Present":    always(column.Falls, func(*column.Digested) float64 { return 1 }),
	"Number":     always(column.Falls, func(w *column.Digested) float64 { return float64(w.Samples()) }),
	"Oldest":     always(column.Falls, func(w *column.Digested) float64 { return w.Head[0] }),
	"Newest":     always(column.Falls, last),
	"OldestTime": always(column.Falls, func(w *column.Digested) float64 { return float64(w.FirstTime) / 1000 }),
	// Prometheus's engine never answers a time before 1970.
	"NewestTime": always(column.Falls, func(w *column.Digested) float64 { return max(0, float64(w.LastTime)/1000) }),
	"Delta":      {Value: func(w *column.Digested) (float64, bool) { return difference(w, false, 0) }},
	"Increase":   {Kind: column.Falls, Value: func(w *column.Digested) (float64, bool) { return difference(w, true, 0) }},
	"Rate": {Kind: column.Falls, Value: func(w *column.Digested) (float64, bool) {
		return difference(w, true, frame.SecondsOf(w.End-w.Start))
	}},
	"Resets":  {Kind: column.Falls, Value: resets},
	"Changes": always(column.Changes, func(w *column.Digested) float64 { return float64(w.Changes()) }),
	"Min":     always(column.Extremes, func(w *column.Digested) float64 { return w.Extreme(true) }),
	"Max":     always(column.Extremes, func(w *column.Digested) float64 { return w.Extreme(false) }),
	"Sum":     {Kind: column.Sums, Value: sum},
	"Avg":     {Kind: column.Sums, Value: mean},
}

// Of is the form of what kernels compute by that policy, or nil.
func Of(policy abi.Policy) *Form { return forms[policy.Name] }

// always is the form of a function that digests of a kind always say enough for.
func always(kind column.Kind, value func(w *column.Digested) float64) *Form {
	return &Form{Kind: kind, Value: func(w *column.Digested) (float64, bool) { return value(w), true }}
}

func last(w *column.Digested) float64 { return w.Tail[len(w.Tail)-1] }

// difference is that of the last sample and the first, extrapolated to the window's ends as
// Prometheus does; of a counter with what it had before each reset added.
func difference(w *column.Digested, counter bool, seconds float64) (v float64, ok bool) {
	first := w.Head[0]
	increase := last(w) - first
	if counter && !w.Falls(func(before float64) { increase += before }) {
		return 0, false
	}
	x := frame.Extent{Start: w.Start, First: w.FirstTime, Last: w.LastTime, End: w.End, Samples: w.Samples()}
	return float64(increase * x.Factor(counter, seconds, first, increase)), true
}

func resets(w *column.Digested) (float64, bool) {
	n := 0
	ok := w.Falls(func(float64) { n++ })
	return float64(n), ok
}

func sum(w *column.Digested) (float64, bool) {
	t, ok := w.Total()
	v, certain := t.Sum(w.Samples())
	return v, ok && certain
}

func mean(w *column.Digested) (float64, bool) {
	t, ok := w.Total()
	v, certain := t.Mean(w.Samples())
	return v, ok && certain
}
