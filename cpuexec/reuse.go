package cpuexec

import (
	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/reuse"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
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
	probe := &evaluation{job: r.job, Query: &operator.Query{Matrix: &plan.Matrix{}}}
	probe.warnNonCounters(w.ArgPos, ls)
	return len(probe.Matrix.Annotations) > 0
}
