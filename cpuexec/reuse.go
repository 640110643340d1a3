package cpuexec

import (
	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/reuse"
	"github.com/promwarp/promwarp/plan"
)

// reuses reports whether results of n may be used again.
func (r *run) reuses(n *plan.Aggregate) bool {
	_, ok := r.job.reusable[n]
	return ok
}

// reuse evaluates an aggregation over a window at the steps at which its values
// are not known.
func (r *run) reuse(n *plan.Aggregate, leaf reuse.Leaf) ([]plan.Row, error) {
	g := r.job.Grid
	if g.Steps < reuse.FewestSteps || !r.MayHold(r.Held+g.Steps) || leaf.Ordered && r.job.Accelerator != nil {
		return r.aggregate(n) // an accelerator does not tell the order
	}
	sel, err := r.fetch(leaf.Window)
	if err != nil {
		return nil, err
	}
	if sel.Provenance() == nil {
		return r.aggregate(n)
	}
	src, err := r.fetchSource(leaf.Window, leaf.Maps)
	if err != nil {
		return nil, err
	}
	if src.mayCollide || r.mayWarn(leaf.Window, src) || !leaf.Fits(r.Query, sel) {
		return r.aggregate(n)
	}
	r.overlaps = false
	rows, steps, err := leaf.Evaluate(r.Query, r.job.Results, reuse.Source{
		Selection: sel,
		Evaluate:  func(from, to int) (*results.Values, error) { return r.part(n, leaf.Ordered, from, to) },
		Overlaps:  func() bool { return r.overlaps },
	})
	if err == nil && r.job.Noted != nil {
		r.job.Noted(n, steps)
	}
	return rows, err
}

// part evaluates n at steps from from to to, the end excluded.
func (r *run) part(n *plan.Aggregate, ordered bool, from, to int) (*results.Values, error) {
	g := r.job.Grid
	sub := r.on(plan.Grid{Start: g.At(from), Interval: g.Interval, Steps: to - from}, n)
	sub.fetched = r.fetched
	sub.ordered = ordered
	rows, err := sub.aggregate(n)
	r.absorb(sub.Matrix)
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
		v.First, v.Series = sub.first, r.fetched.sel.Series()
	}
	return v, nil
}

// mayWarn reports whether Prometheus's engine may say something of the series of a
// window, which then depends on the steps at which they have values.
func (r *run) mayWarn(w *plan.Window, src *source) bool {
	if !w.Func.Counter {
		return false
	}
	ls := src.labels
	if src.oneName {
		ls = ls[:min(len(ls), 1)]
	}
	probe := &run{job: r.job, Query: &operator.Query{Matrix: &plan.Matrix{}}}
	probe.warnNonCounters(w.ArgPos, ls)
	return len(probe.Matrix.Annotations) > 0
}
