package cpuexec

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// This file has aggregations whose results at settled steps may be used again, and the evaluation of
// the others, ahead or in the end. What comes out has the bits of an evaluation of all steps.

// reusable is an aggregation over a window whose values at a step depend on nothing but the
// samples that the step reads.
type reusable struct {
	node    *plan.Aggregate
	window  *plan.Window
	maps    vector.Chain
	ordered bool // whether the order of its rows shows
	// form is everything that its values depend on besides the selector, steps and samples.
	form  string
	reach results.Reach // what a step reads
}

// reusables returns the aggregations at and below n whose results may be used again.
func reusables(n plan.Node) map[*plan.Aggregate]*reusable {
	leaves := map[*plan.Aggregate]*reusable{}
	var find func(n plan.Node, ordered bool) // whether the order of n's rows shows in what is above it
	find = func(n plan.Node, ordered bool) {
		switch n := n.(type) {
		case *plan.Aggregate:
			if leaf := reusableOf(n, ordered); leaf != nil {
				leaves[n] = leaf
				return
			}
			// What is equal, or added up, is so in the order of its input.
			ordered = ordered || !aggregate.Of(n.Func).AnyOrder
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

// reusableOf returns n if its results may be used again, or else nil. Where their
// order shows, they are those of operators that add value to value: of these alone it
// is known which series of a group was the first with a value, by which Prometheus's
// engine orders groups.
func reusableOf(n *plan.Aggregate, ordered bool) *reusable {
	if !n.Func.Adds() && (ordered || !aggregate.Of(n.Func).Repeats) {
		return nil
	}
	bottom, above := vector.Under(n.Input, false)
	w, ok := bottom.(*plan.Window)
	if !ok || w.Scan.Fixed != nil || n.ParamNode != nil || len(w.Params) > 0 {
		return nil
	}
	// Of parameters that are not ordinary Prometheus's engine says something.
	if ordinary := aggregate.Of(n.Func).Ordinary; ordinary != nil && !ordinary(n.Param) {
		return nil
	}
	if ordinary := window.Of(w.Func).Ordinary; ordinary != nil && !ordinary(w.Param, w.Trend) {
		return nil
	}
	var maps strings.Builder
	for _, node := range above {
		m, ok := node.(*plan.Map)
		if !ok {
			return nil
		}
		fmt.Fprintf(&maps, "%q %v %t %t,", m.Func.Name, m.Args, m.Swap, m.Bool)
	}
	leaf := &reusable{node: n, window: w, maps: above, ordered: ordered}
	leaf.form = fmt.Sprintf("%t %q %t %q %v (%s) %q %d %d %d %v %v %v", ordered, n.Func.Name, n.Without, n.Grouping, n.Param, &maps,
		w.Func.Name, w.Func.Exactness, w.Width, w.Scan.Offset, w.Extension, w.Param, w.Trend)
	leaf.reach.Width, leaf.reach.Offset = w.Reach()
	return leaf
}

// exact reports whether the leaf's values at steps of g always have Prometheus's bits, and if not, whether
// they may have: an evaluation says whether its values have. Other values depend on which steps are
// evaluated, and are not used again.
func (l *reusable) exact(g plan.Grid) (always, maybe bool) {
	f := window.Of(l.window.Func)
	always = f.Exactness == plan.BitIdentical || l.reach.Width <= f.Slides*g.Interval
	return always, always || f.Whole
}

// fits reports whether the sample limit holds for the leaf whatever its
// values: how many samples Prometheus's engine would hold is not remembered.
func (l *reusable) fits(q *operator.Query, sel *selection.Selection) bool {
	g := q.Grid
	constants := 1 + l.window.Func.Param.Count() // that of the aggregation, and the window's
	for _, n := range l.maps {
		constants = max(constants, 1+l.window.Func.Param.Count()+n.(*plan.Map).Scalars)
	}
	results := 1 // held at once
	if len(l.maps) > 0 {
		results = 2
	}
	held := q.Held + q.Beside + constants*(g.Steps+1) + sel.NumSeries()*(1+results*g.Steps)
	if q.MayHold(held + int(sel.NumSamples())) {
		return true
	}
	var most int64 // samples of a series, which a window may hold
	for i := range sel.NumSeries() {
		most = max(most, column.CountSamples(sel.Chunks(i)))
	}
	return q.MayHold(held + int(most))
}

// fewestSteps is the number of steps below which looking up results is not worth it.
const fewestSteps = 4

// reuse evaluates an aggregation over a window at the steps at which its values
// are not known.
func (r *evaluation) reuse(leaf *reusable) ([]plan.Row, error) {
	n, g := leaf.node, r.job.Grid
	inexact, x := leaf.window.Func.Exactness != plan.BitIdentical, r.job.Accelerator
	// An accelerator does not tell the order, and has bits of its own where a function is not exact.
	offloads := x != nil && (x.Suits(LeafOf(n)) == "" || inexact && x.Suits(LeafOf(leaf.window)) == "")
	if g.Steps < fewestSteps || !r.MayHold(r.Held+g.Steps) || offloads && (leaf.ordered || inexact) {
		return r.aggregate(n).Eval()
	}
	if _, maybe := leaf.exact(g); !maybe {
		return r.aggregate(n).Eval()
	}
	sel, err := r.fetch(leaf.window)
	if err != nil {
		return nil, err
	}
	if sel.Provenance == nil {
		return r.aggregate(n).Eval()
	}
	src, err := r.fetchSource(leaf.window, leaf.maps)
	if err != nil {
		return nil, err
	}
	if src.mayCollide || r.mayWarn(leaf.window, src) || !leaf.fits(r.Query, sel) {
		return r.aggregate(n).Eval()
	}
	r.foreseen = r.remembers(leaf, src)
	return r.complete(leaf, sel)
}

// complete returns the rows of a leaf over sel at all steps, from what is remembered of it, what is
// known ahead, and what is evaluated, and remembers what is settled.
func (r *evaluation) complete(leaf *reusable, sel *selection.Selection) ([]plan.Row, error) {
	g, p, memory, series := r.job.Grid, sel.Provenance, r.job.Results, r.Matrix.Work.Series
	r.overlaps, r.varies = false, false
	steps := known{steps: g.Steps}
	var key results.Key
	if memory != nil {
		phase := (g.Start%g.Interval + g.Interval) % g.Interval // from a multiple of the interval to the next step, ms
		key = results.Key{Selector: p.Selector, Leaf: leaf.form, Interval: g.Interval, Phase: phase}
		found, from := memory.Lookup(key, leaf.reach, g, p)
		// Each evaluation goes over all series, so a few steps are not worth two.
		if found != nil && found.To-found.From >= g.Steps/4 {
			steps.add(found.From, found.To, from, found.Values)
		}
	}
	reused := steps.count
	for _, a := range r.job.Ahead.of(r, leaf.window, sel) {
		steps.add(0, a.values.Grid.Steps, a.at, a.values)
	}
	v, err := r.evaluateOthers(leaf, &steps)
	if err == nil && r.varies && steps.count > 0 {
		r.Charge(-operator.RowsBytes(v.Rows))
		steps, reused = known{steps: g.Steps}, 0
		v, err = r.evaluateSteps(leaf, 0, g.Steps)
	}
	r.Matrix.Work.Series = series + sel.NumSeries()
	if err != nil {
		return nil, err
	}
	if memory != nil {
		if !r.varies && !r.overlaps { // of which Prometheus's engine says at how many steps they do
			memory.Store(key, leaf.reach, v, p)
		}
		memory.Count(reused, g.Steps-reused)
	}
	if leaf.ordered && steps.count > 0 {
		v.Order()
	}
	for k, all := range v.All {
		r.Matrix.SamplesAtStep[k] += all
		if k > 0 {
			all = v.Fresh[k]
		}
		r.Matrix.NewSamplesAtStep[k] += all
	}
	if r.job.Noted != nil {
		r.job.Noted(leaf.node, plan.KeptSteps{Kept: reused, Evaluated: g.Steps - reused, Ahead: steps.count - reused})
	}
	return v.Rows, nil
}

// known are stretches of a query's steps at which the values are known.
//
//	steps      0         10        20        30
//	ranges     |---------)    |----)   |------
//	evaluated           |-----)   |----)          each from the step before on, where samples are counted
type known struct {
	steps  int     // of the query
	ranges []place // in order, none overlapping another
	count  int     // steps of all
}

// place is where a stretch of values lies: at steps at to end of the query, the end excluded.
type place struct {
	results.StepRange
	at, end int
}

// add adds steps from to to of values, the end excluded, as those from step at of the query on,
// unless some of them are known. How many samples of the first are new must be known, but where it
// is the query's first.
func (k *known) add(from, to, at int, v *results.Values) {
	p := place{results.StepRange{Values: v, From: from, To: to}, at, at + to - from}
	i, _ := slices.BinarySearchFunc(k.ranges, p, func(a, b place) int { return a.at - b.at })
	if from >= to || i > 0 && k.ranges[i-1].end > at || i < len(k.ranges) && k.ranges[i].at < p.end {
		return
	}
	k.ranges = slices.Insert(k.ranges, i, p)
	k.count += to - from
}

// evaluateOthers evaluates a leaf at the steps that are not known, and returns the values at all.
func (r *evaluation) evaluateOthers(leaf *reusable, k *known) (*results.Values, error) {
	if k.count == 0 {
		return r.evaluateSteps(leaf, 0, k.steps)
	}
	var ranges []results.StepRange
	always, _ := leaf.exact(r.job.Grid)
	at, evaluated := 0, int64(0) // bytes
	between := func(to int) error {
		if at == to {
			return nil
		}
		from := at
		if r.job.CountSamples || !always {
			// Of one step more it is known which samples are new at the next, and whether means vary.
			from = max(at-1, 0)
		}
		v, err := r.evaluateSteps(leaf, from, to)
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
		at = p.end
	}
	if err := between(k.steps); err != nil {
		return nil, err
	}
	v := results.Join(ranges...)
	r.Charge(operator.RowsBytes(v.Rows) - evaluated)
	return v, r.Done()
}

// evaluateSteps evaluates a leaf at steps from from to to, the end excluded.
func (r *evaluation) evaluateSteps(leaf *reusable, from, to int) (*results.Values, error) {
	n, g := leaf.node, r.job.Grid
	sub := r.on(plan.Grid{Start: g.At(from), Interval: g.Interval, Steps: to - from}, n)
	sub.fetched, sub.partial = r.fetched, to-from < g.Steps || r.foreseen && !r.varies
	var first [][]int32
	eval := sub.aggregate(n).Eval
	if leaf.ordered {
		input := sub.build(n.Input)
		eval = func() (rows []plan.Row, err error) {
			rows, first, err = aggregate.Added(sub.Query, n, input, true)
			return rows, err
		}
	}
	rows, err := sub.rows(r, eval)
	always, _ := leaf.exact(g)
	r.overlaps, r.varies = r.overlaps || sub.overlaps, r.varies || sub.varies && !always
	if err == nil {
		err = r.Done() // rows may be only some of those there are
	}
	if err != nil {
		return nil, err
	}
	v := &results.Values{Grid: sub.job.Grid, Rows: rows, All: sub.Matrix.SamplesAtStep, Fresh: sub.Matrix.NewSamplesAtStep}
	if r.job.CountSamples {
		v.Fresh[0] = -1
	}
	if leaf.ordered {
		v.First, v.Series = first, r.fetched.sel.Series()
	}
	return v, nil
}

// fewSamples are retained in any case: that costs little, and other queries may read them.
const fewSamples = 1 << 20

// remembers reports whether what a leaf over many samples comes to will be known next time, at most
// of its steps, as far as can be foreseen.
func (r *evaluation) remembers(leaf *reusable, src *source) bool {
	g, sel, rows := r.job.Grid, src.sel, src.sel.NumSeries()
	if r.job.Results == nil || sel.NumSamples() < fewSamples {
		return false
	}
	if !leaf.node.Func.Keeps && src.relabelled == nil {
		rows = len(src.groups(r.Context, leaf.node).Labels)
	}
	if !r.job.Results.Holds(int64(rows) * int64(g.Steps)) {
		return false
	}
	from, to := leaf.reach.Settled(g, sel.Provenance.Settled, sel.Provenance.Settled)
	always, _ := leaf.exact(g)
	return to-from > g.Steps-g.Steps/4 && (always || beginsWithIntegers(sel))
}

// beginsWithIntegers reports whether the first values of some of the series are integers.
func beginsWithIntegers(sel *selection.Selection) bool {
	var b decode.Buffer
	for i := 0; i < sel.NumSeries(); i += max(1, sel.NumSeries()/8) {
		b.Reset()
		cs := sel.Chunks(i)
		err := b.Read(sel, i, cs[:min(1, len(cs))], true, &decode.Stats{})
		if err != nil || slices.ContainsFunc(b.Values, func(v float64) bool { return !exact.IsInteger(v) }) {
			return false
		}
	}
	return true
}

// mayWarn reports whether Prometheus's engine may say something of the series of a
// window, which then depends on the steps at which they have values.
func (r *evaluation) mayWarn(w *plan.Window, src *source) bool {
	if !w.Func.Counter {
		return false
	}
	ls := src.labels
	if src.oneName {
		ls = ls[:min(len(ls), 1)]
	}
	return len(r.nonCounters(w.ArgPos, ls)) > 0
}

// Ahead evaluates aggregations of a job over parts of what they read, before the rest has come. The
// aggregations are those whose results may be used again, since the same holds of both: the value
// of a step depends on nothing but the samples that it reads. What was evaluated is used where the
// selection turns out to have the very same chunks. A nil Ahead evaluates none.
type Ahead struct {
	x      *Executor
	job    Job
	leaves map[*plan.Window]*aheadLeaf
}

// aheadLeaf is an aggregation, and what it came to over parts, which is charged to the job's budget.
type aheadLeaf struct {
	*reusable
	found  []partial
	varies bool // what it comes to is not used
}

// partial is what a leaf came to over a part of what it reads.
type partial struct {
	values     *results.Values
	took       *plan.Matrix // what that took
	at         int          // step of the query of the first of the values
	part       *selection.Selection
	mint, maxt int64 // what is read of it, ms, both included
}

// Ahead returns what evaluates aggregations of the job ahead, or nil if there are none. The job has
// neither Select nor Results, and counts no samples.
func (x *Executor) Ahead(job Job) *Ahead {
	a := &Ahead{x: x, job: job, leaves: map[*plan.Window]*aheadLeaf{}}
	for _, leaf := range reusables(job.Node) {
		if _, maybe := leaf.exact(job.Grid); maybe && (!job.StartTimestamps || !leaf.window.ReadsStarts()) {
			a.leaves[leaf.window] = &aheadLeaf{reusable: leaf}
		}
	}
	if len(a.leaves) == 0 || job.Grid.Steps < fewestSteps {
		return nil
	}
	return a
}

// Reads reports whether one of the aggregations reads a window.
func (a *Ahead) Reads(w *plan.Window) bool { return a != nil && a.leaves[w] != nil }

// The least that is evaluated ahead, in steps and in multiples of the time that one step reads.
// The steps that read beyond a part are evaluated later, over all series.
const (
	leastAhead = 4
	leastParts = 8
)

// Evaluate evaluates what reads a window, of whose selection p is a part, at the steps that read
// nothing else, and returns how many these are. Where that fails, nothing of it is kept: if there is
// something to say of it, the evaluation of the whole job will.
func (a *Ahead) Evaluate(ctx context.Context, w *plan.Window, p selection.Part) (steps int) {
	leaf, used, kept := a.leaves[w], a.job.Budget.Used(), int64(0)
	all := []selection.Settled{{From: p.MinT, To: p.MaxT + 1}}
	from, to := leaf.reach.Settled(a.job.Grid, all, all)
	if to-from <= leastAhead || leaf.varies || leaf.reach.Width > (p.MaxT-p.MinT)/leastParts {
		return 0
	}
	defer func() { _ = a.job.Budget.Charge(used + kept - a.job.Budget.Used()) }() // that it fails will show
	r := newEvaluation(ctx, a.x, a.job)
	defer r.Matrix.Release()
	r.fetched = fetched{w, p.Sel}
	src, err := r.fetchSource(w, leaf.maps)
	if err != nil || src.mayCollide || r.mayWarn(w, src) {
		return 0
	}
	v, err := r.evaluateSteps(leaf.reusable, from, to)
	leaf.varies = r.varies
	if err != nil || r.varies || r.overlaps || len(r.Matrix.Annotations) > 0 {
		return 0
	}
	r.Matrix.Work.Series = 0 // they are counted once
	found := partial{
		values: results.Join(results.StepRange{Values: v, To: v.Grid.Steps}), // in memory of its own
		took:   &plan.Matrix{Work: r.Matrix.Work, Peak: r.Matrix.Peak}, at: from, part: p.Sel,
	}
	found.mint, found.maxt = w.Reads(v.Grid)
	leaf.found, kept = append(leaf.found, found), operator.RowsBytes(found.values.Rows)
	return to - from
}

// of returns what was evaluated ahead of what reads w and holds of sel, and adds to r what it took.
func (a *Ahead) of(r *evaluation, w *plan.Window, sel *selection.Selection) (found []partial) {
	if !a.Reads(w) {
		return nil
	}
	leaf := a.leaves[w]
	for _, one := range leaf.found {
		if !leaf.varies && sel.SharesChunks(one.part, one.mint, one.maxt) {
			found = append(found, one)
			r.absorb(one.took)
		}
		r.Charge(-operator.RowsBytes(one.values.Rows))
	}
	leaf.found = nil
	return found
}
