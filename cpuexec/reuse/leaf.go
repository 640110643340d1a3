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
	"slices"
	"strings"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
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
	var find func(n plan.Node, ordered bool) // whether the order of n's rows shows in what is above it
	find = func(n plan.Node, ordered bool) {
		switch n := n.(type) {
		case *plan.Aggregate:
			if leaf, ok := leafOf(n, ordered); ok {
				leaves[n] = leaf
				return
			}
			// What is equal, or added up, is so in the order of its input.
			ordered = true
		case *plan.Histogram:
			// The counts of several buckets with the same bound are added up in order.
			ordered = true
		}
		for _, in := range n.Inputs() {
			find(in, ordered)
		}
	}
	find(n, false)
	return leaves
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
	if !ok || w.Func.Exactness != plan.BitIdentical || w.Scan.Fixed != nil || n.ParamNode != nil || len(w.Params) > 0 {
		return Leaf{}, false
	}
	// Of parameters that are not ordinary Prometheus's engine says something.
	if ordinary := aggregate.Of(n.Func).Ordinary; ordinary != nil && !ordinary(n.Param) {
		return Leaf{}, false
	}
	if ordinary := window.Of(w.Func).Ordinary; ordinary != nil && !ordinary(w.Param, w.Trend) {
		return Leaf{}, false
	}
	for _, node := range above {
		if _, ok := node.(*plan.Map); !ok {
			return Leaf{}, false
		}
	}
	return Leaf{Node: n, Window: w, Maps: above, form: formOf(n, above, w, ordered), Ordered: ordered}, true
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

// FewestSteps is the number of steps below which looking up results is not worth it.
const FewestSteps = 4

// Source is what a leaf reads, and who evaluates it.
type Source struct {
	Selection *selection.Selection // with a provenance
	// Evaluate evaluates the leaf at steps from to to of the query, the end excluded.
	Evaluate func(from, to int) (*results.Values, error)
	// Ahead are values that hold of the selection.
	Ahead []Ahead
	// Overlaps reports, after an evaluation, whether start timestamps overlap in some window.
	// Prometheus's engine says at how many steps they do, so nothing of it is stored.
	Overlaps func() bool
}

// Evaluate returns the leaf's rows at all steps of q, from what memory, which may be nil, has of
// it, what is known ahead, and what is evaluated, and stores what is settled.
func (l *Leaf) Evaluate(q *operator.Query, memory *results.Memory, s Source) ([]plan.Row, plan.KeptSteps, error) {
	g, p, series := q.Grid, s.Selection.Provenance(), q.Matrix.Work.Series
	steps := known{steps: g.Steps}
	var key results.Key
	if memory != nil {
		phase := (g.Start%g.Interval + g.Interval) % g.Interval // from a multiple of the interval to the next step, ms
		key = results.Key{Selector: p.Selector, Leaf: l.form, Interval: g.Interval, Phase: phase}
		found, from := memory.Lookup(key, l.reach(), g, p)
		// Each evaluation goes over all series, so a few steps are not worth two.
		if found != nil && found.To-found.From >= g.Steps/4 {
			steps.add(found.From, found.To, from, found.Values)
		}
	}
	reused := steps.count
	for _, a := range s.Ahead {
		steps.add(a.first, a.Values.Grid.Steps, a.at+a.first, a.Values)
	}
	v, err := steps.complete(q, s.Evaluate)
	q.Matrix.Work.Series = series + s.Selection.NumSeries()
	if err != nil {
		return nil, plan.KeptSteps{}, err
	}
	if memory != nil && !s.Overlaps() {
		memory.Store(key, l.reach(), v, p)
	}
	if l.Ordered && steps.count > 0 {
		v.Order()
	}
	if memory != nil {
		memory.Count(reused, g.Steps-reused)
	}
	for k, all := range v.All {
		q.Matrix.SamplesAtStep[k] += all
		if k > 0 {
			all = v.Fresh[k]
		}
		q.Matrix.NewSamplesAtStep[k] += all
	}
	return v.Rows, plan.KeptSteps{Kept: reused, Evaluated: g.Steps - reused, Ahead: steps.count - reused}, nil
}

// reach is what a step reads.
func (l *Leaf) reach() (r results.Reach) {
	r.Width, r.Offset = l.Window.Reach()
	return r
}

// Fits reports whether the sample limit holds for the leaf whatever its
// values: how many samples Prometheus's engine would hold is not remembered.
func (l *Leaf) Fits(q *operator.Query, sel *selection.Selection) bool {
	g := q.Grid
	constants := 1 + l.Window.Func.Param.Count() // that of the aggregation, and the window's
	for _, n := range l.Maps {
		constants = max(constants, 1+l.Window.Func.Param.Count()+n.(*plan.Map).Scalars)
	}
	results := 1 // held at once
	if len(l.Maps) > 0 {
		results = 2
	}
	held := q.Held + constants*(g.Steps+1) + sel.NumSeries()*(1+results*g.Steps)
	if q.MayHold(held + int(sel.NumSamples())) {
		return true
	}
	var most int64 // samples of a series, which a window may hold
	for i := range sel.NumSeries() {
		most = max(most, column.CountSamples(sel.Chunks(i)))
	}
	return q.MayHold(held + int(most))
}

// known are stretches of a query's steps at which the values are known.
//
//	steps      0         10        20        30
//	ranges     |---------)    |----)   |------
//	evaluated           |-----)   |----)          each from the step before on
type known struct {
	steps  int     // of the query
	ranges []place // in order, none overlapping another
	count  int     // steps of all
}

// place is where a stretch of values lies: the first of them is at step at of the query.
type place struct {
	results.StepRange
	at int
}

func (p place) end() int { return p.at + p.To - p.From }

// add adds steps from to to of values, the end excluded, as those from step at of the query on,
// unless some of them are known. How many samples of the first are new must be known, but where it
// is the query's first.
func (k *known) add(from, to, at int, v *results.Values) {
	p := place{results.StepRange{Values: v, From: from, To: to}, at}
	i, _ := slices.BinarySearchFunc(k.ranges, p, func(a, b place) int { return a.at - b.at })
	if from >= to || i > 0 && k.ranges[i-1].end() > at || i < len(k.ranges) && k.ranges[i].at < p.end() {
		return
	}
	k.ranges = slices.Insert(k.ranges, i, p)
	k.count += to - from
}

// complete evaluates the other steps, and returns the values at all.
func (k *known) complete(q *operator.Query, evaluate func(from, to int) (*results.Values, error)) (*results.Values, error) {
	if k.count == 0 {
		return evaluate(0, k.steps)
	}
	var ranges []results.StepRange
	at, evaluated := 0, int64(0) // bytes
	between := func(to int) error {
		if at == to {
			return nil
		}
		// From one step earlier on, to know which samples are new at the first.
		from := max(at-1, 0)
		v, err := evaluate(from, to)
		if err != nil {
			return err
		}
		evaluated += operator.RowsBytes(v.Rows)
		ranges = append(ranges, results.StepRange{Values: v, From: at - from, To: to - from})
		return nil
	}
	for _, p := range k.ranges {
		if err := between(p.at); err != nil {
			return nil, err
		}
		ranges = append(ranges, p.StepRange)
		at = p.end()
	}
	if err := between(k.steps); err != nil {
		return nil, err
	}
	v := results.Join(ranges...)
	q.Charge(operator.RowsBytes(v.Rows) - evaluated)
	return v, q.Done()
}

// Ahead is what a leaf came to over a part of what it reads, before the rest had come.
type Ahead struct {
	Values     *results.Values
	Took       *plan.Matrix // what that took
	at         int          // step of the query of the first of the values
	first      int          // the first of them to be used
	part       *selection.Selection
	mint, maxt int64 // what is read of it, ms, both included
}

// The least that is evaluated ahead: so many steps, and so many times as long as one of them reads.
// The steps that read beyond a part are evaluated later, over all series.
const (
	leastAhead = 4
	leastParts = 8
)

// Within returns the steps of g, from from to to, the end excluded, to evaluate over a part: those
// that read nothing else, or none if they are too few.
func (l *Leaf) Within(g plan.Grid, p selection.Part) (from, to int) {
	r := l.reach()
	if r.Width > (p.MaxT-p.MinT)/leastParts {
		return 0, 0
	}
	from, to = r.Settled(g, &selection.Provenance{Settled: []selection.Settled{{From: p.MinT, To: p.MaxT + 1}}})
	if to-from <= leastAhead {
		return 0, 0
	}
	return from, to
}

// Keep makes what v, the values at the steps from from on of a query, came to over a part, which
// took is about, into memory of its own.
func (l *Leaf) Keep(v *results.Values, from int, p selection.Part, took *plan.Matrix) Ahead {
	a := Ahead{at: from, part: p.Sel, Took: took}
	if from > 0 {
		a.first = 1 // which samples are new at the first is not known
	}
	a.Values = results.Join(results.StepRange{Values: v, To: v.Grid.Steps})
	a.mint, a.maxt = l.Window.Reads(v.Grid)
	return a
}

// HoldsOf reports whether the values are those over all of sel: it has the very same chunks.
func (a *Ahead) HoldsOf(sel *selection.Selection) bool {
	return sel.SharesChunks(a.part, a.mint, a.maxt)
}
