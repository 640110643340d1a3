package cpuexec

import (
	"context"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/reuse"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// reuse evaluates an aggregation over a window at the steps at which its values
// are not known.
func (r *evaluation) reuse(n *plan.Aggregate, leaf reuse.Leaf) ([]plan.Row, error) {
	g := r.job.Grid
	x := r.job.Accelerator // it does not tell the order
	if g.Steps < reuse.FewestSteps || !r.MayHold(r.Held+g.Steps) || leaf.Ordered && x != nil && x.Suits(LeafOf(n)) == "" {
		return r.anew(n)
	}
	sel, err := r.fetch(leaf.Window)
	if err != nil {
		return nil, err
	}
	if sel.Provenance() == nil {
		return r.anew(n)
	}
	src, err := r.fetchSource(leaf.Window, leaf.Maps)
	if err != nil {
		return nil, err
	}
	if src.mayCollide || r.mayWarn(leaf.Window, src) || !leaf.Fits(r.Query, sel) {
		return r.anew(n)
	}
	r.overlaps = false
	rows, steps, err := leaf.Evaluate(r.Query, r.job.Results, reuse.Source{
		Selection: sel,
		Ahead:     r.job.Ahead.of(r, leaf.Window, sel),
		Evaluate:  func(from, to int) (*results.Values, error) { return r.evaluateSteps(n, leaf.Ordered, from, to) },
		Overlaps:  func() bool { return r.overlaps },
	})
	if err == nil && r.job.Noted != nil {
		r.job.Noted(n, steps)
	}
	return rows, err
}

// anew evaluates n at all steps.
func (r *evaluation) anew(n *plan.Aggregate) ([]plan.Row, error) {
	return operator.Rows(&vector.Stream{Query: r.Query, Of: r.aggregate(n)})
}

// evaluateSteps evaluates n at steps from from to to, the end excluded.
func (r *evaluation) evaluateSteps(n *plan.Aggregate, ordered bool, from, to int) (*results.Values, error) {
	g := r.job.Grid
	sub := r.on(plan.Grid{Start: g.At(from), Interval: g.Interval, Steps: to - from}, n)
	sub.fetched = r.fetched
	of := sub.aggregate(n)
	if ordered {
		of = aggregate.NewSum(sub.Query, n, sub.build(n.Input), true)
	}
	rows, err := sub.rows(r, &vector.Stream{Query: sub.Query, Of: of})
	r.overlaps = r.overlaps || sub.overlaps
	if err == nil {
		err = r.Done() // rows may be only some of those there are
	}
	if err != nil {
		return nil, err
	}
	v := &results.Values{Grid: sub.job.Grid, Rows: rows, All: sub.Matrix.SamplesAtStep, Fresh: sub.Matrix.NewSamplesAtStep}
	v.Fresh[0] = -1
	if ordered {
		v.First, v.Series = of.(*aggregate.Sum).FirstSeries(rows), r.fetched.sel.Series()
	}
	return v, nil
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
	reuse.Leaf
	found []reuse.Ahead
}

// Ahead returns what evaluates aggregations of the job ahead, or nil if there are none. The job has
// neither Select nor Results.
func (x *Executor) Ahead(job Job) *Ahead {
	a := &Ahead{x: x, job: job, leaves: map[*plan.Window]*aheadLeaf{}}
	for _, leaf := range reuse.Leaves(job.Node) {
		if !job.StartTimestamps || !leaf.Window.ReadsStarts() {
			a.leaves[leaf.Window] = &aheadLeaf{Leaf: leaf}
		}
	}
	if len(a.leaves) == 0 || job.Grid.Steps < reuse.FewestSteps {
		return nil
	}
	return a
}

// Reads reports whether one of the aggregations reads a window.
func (a *Ahead) Reads(w *plan.Window) bool { return a != nil && a.leaves[w] != nil }

// Evaluate evaluates what reads a window, of whose selection p is a part, at the steps that read
// nothing else, and returns how many these are. Where that fails, nothing of it is kept: if there is
// something to say of it, the evaluation of the whole job will.
func (a *Ahead) Evaluate(ctx context.Context, w *plan.Window, p selection.Part) (steps int) {
	leaf, used, kept := a.leaves[w], a.job.Budget.Used(), int64(0)
	from, to := leaf.Within(a.job.Grid, p)
	if from == to {
		return 0
	}
	defer func() { _ = a.job.Budget.Charge(used + kept - a.job.Budget.Used()) }() // that it fails will show
	r := newEvaluation(ctx, a.x, a.job)
	defer r.Matrix.Release()
	r.fetched = fetched{w, p.Sel}
	src, err := r.fetchSource(w, leaf.Maps)
	if err != nil || src.mayCollide || r.mayWarn(w, src) {
		return 0
	}
	v, err := r.evaluateSteps(leaf.Node, leaf.Ordered, from, to)
	if err != nil || r.overlaps || len(r.Matrix.Annotations) > 0 {
		return 0
	}
	r.Matrix.Work.Series = 0 // they are counted once
	found := leaf.Keep(v, from, p, &plan.Matrix{Work: r.Matrix.Work, Peak: r.Matrix.Peak})
	leaf.found, kept = append(leaf.found, found), operator.RowsBytes(found.Values.Rows)
	return to - from
}

// of returns what was evaluated ahead of what reads w and holds of sel, and adds to r what it took.
func (a *Ahead) of(r *evaluation, w *plan.Window, sel *selection.Selection) (found []reuse.Ahead) {
	if !a.Reads(w) {
		return nil
	}
	leaf := a.leaves[w]
	for _, one := range leaf.found {
		if one.HoldsOf(sel) {
			found = append(found, one)
			r.absorb(one.Took)
		}
		r.Charge(-operator.RowsBytes(one.Values.Rows))
	}
	leaf.found = nil
	return found
}
