// Package reuse finds aggregations whose results at settled steps may be used again, and has only
// the other steps evaluated.
//
// Leaves finds them in a plan. Leaf.Evaluate looks their values up in a results.Memory, has those
// before and behind the known ones evaluated, and stores what is settled. The answer has the bits
// of an evaluation of all steps.
//
// Start with Leaf.Evaluate.
package reuse

import (
	"fmt"
	"strings"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// Leaf is an aggregation over a window whose values at a step depend on nothing but the
// samples that the step reads.
type Leaf struct {
	Node    *plan.Aggregate
	Window  *plan.Window
	Maps    vector.Chain
	Ordered bool   // whether the order of its rows shows
	form    string // everything that its values depend on besides samples and time
}

// Leaves returns the aggregations at and below n whose results may be used again.
func Leaves(n plan.Node) map[*plan.Aggregate]Leaf {
	leaves := map[*plan.Aggregate]Leaf{}
	find(n, false, leaves)
	return leaves
}

// find collects the aggregations at and below n whose results may be
// used again. ordered says that the order of n's rows shows in what is above it.
func find(n plan.Node, ordered bool, into map[*plan.Aggregate]Leaf) {
	switch n := n.(type) {
	case *plan.Aggregate:
		if leaf, ok := leafOf(n, ordered); ok {
			into[n] = leaf
			return
		}
		// What is equal, or added up, is so in the order of its input.
		ordered = true
	case *plan.Histogram:
		// The counts of several buckets with the same bound are added up in order.
		ordered = true
	}
	for _, in := range n.Inputs() {
		find(in, ordered, into)
	}
}

// leafOf reports whether the results of n may be used again. Where their
// order shows, they are those of operators that add value to value: of these alone it
// is known which series of a group was the first with a value, by which Prometheus's
// engine orders groups.
func leafOf(n *plan.Aggregate, ordered bool) (Leaf, bool) {
	switch {
	case n.Func.Adds():
	case !ordered && aggregate.Of(n.Func).Repeats:
	default:
		return Leaf{}, false
	}
	bottom, above := vector.Under(n.Input, false)
	w, ok := bottom.(*plan.Window)
	// The last bits of functions that are not exact depend on how much else is
	// evaluated. So what is known of a function's name has Prometheus's bits, whether a query
	// asks for these or not.
	if !ok || w.Func.Exactness != plan.BitIdentical || w.Scan.Fixed != nil || !plainParams(n, w) {
		return Leaf{}, false
	}
	for _, node := range above {
		if _, ok := node.(*plan.Map); !ok {
			return Leaf{}, false
		}
	}
	return Leaf{Node: n, Window: w, Maps: above, form: formOf(n, above, w, ordered), Ordered: ordered}, true
}

// plainParams reports whether the parameters of an aggregation and a window are
// constants of which Prometheus's engine says nothing.
func plainParams(n *plan.Aggregate, w *plan.Window) bool {
	if n.ParamNode != nil || len(w.Params) > 0 {
		return false
	}
	if ordinary := aggregate.Of(n.Func).Ordinary; ordinary != nil && !ordinary(n.Param) {
		return false
	}
	ordinary := window.Of(w.Func).Ordinary
	return ordinary == nil || ordinary(w.Param, w.Trend)
}

// formOf writes everything that the values of an aggregation depend on besides its
// selector, its steps and its samples. Different ones have different forms.
func formOf(n *plan.Aggregate, above vector.Chain, w *plan.Window, ordered bool) string {
	var maps strings.Builder
	for _, node := range above {
		m := node.(*plan.Map)
		fmt.Fprintf(&maps, "%q %v %t %t,", m.Func.Name, m.Args, m.Swap, m.Bool)
	}
	return fmt.Sprintf("%t %q %t %q %v (%s) %q %d %d %v %v %v", ordered, n.Func.Name, n.Without, n.Grouping, n.Param, &maps,
		w.Func.Name, w.Width, w.Scan.Offset, w.Extension, w.Param, w.Trend)
}
