package cpuexec

import (
	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// fewestSteps is the number of steps below which looking up results is not worth it.
const fewestSteps = 4

// mayRemember reports whether results of n may be remembered.
func (r *run) mayRemember(n *plan.Aggregate) bool {
	_, ok := r.job.remembered[n]
	return ok
}

// remember evaluates an aggregation over a window at the steps at which its values
// are not remembered.
func (r *run) remember(n *plan.Aggregate, leaf rememberable) ([]plan.Row, error) {
	g := r.job.Grid
	if g.Steps < fewestSteps || !r.MayHold(r.Held+g.Steps) || leaf.ordered && r.job.Accelerator != nil {
		return r.aggregate(n) // an accelerator does not tell the order
	}
	sel, err := r.samples(leaf.window)
	if err != nil {
		return nil, err
	}
	p := sel.Provenance()
	if p == nil {
		return r.aggregate(n)
	}
	src, err := r.open(leaf.window, leaf.maps)
	if err != nil {
		return nil, err
	}
	if src.mayCollide || r.mayWarn(leaf.window, src) || !r.certainlyFits(leaf, src) {
		return r.aggregate(n)
	}

	memory := r.job.Results
	var reach results.Reach
	reach.Width, reach.Offset = leaf.window.Reach()
	key := results.Key{Selector: p.Selector, Leaf: leaf.form, Interval: g.Interval, Phase: phase(g)}
	known, from := memory.Recall(key, reach, g, p)
	r.overlaps = false
	v, kept, err := r.complete(n, leaf.ordered, known, from)
	if err != nil {
		return nil, err
	}
	// Prometheus's engine notes at how many steps start timestamps overlap, so steps are
	// only known at which none do.
	if !r.overlaps {
		memory.Remember(key, reach, v, p)
	}
	if leaf.ordered && kept > 0 {
		v.Order()
	}
	memory.Count(kept, g.Steps-kept)
	if r.job.Noted != nil {
		r.job.Noted(n, plan.KeptSteps{Kept: kept, Evaluated: g.Steps - kept})
	}
	for k, all := range v.All {
		r.Matrix.SamplesAtStep[k] += all
		if k > 0 {
			all = v.Fresh[k]
		}
		r.Matrix.NewSamplesAtStep[k] += all
	}
	return v.Rows, nil
}

// phase is the time from a multiple of the interval to the next step in ms.
func phase(g plan.Grid) int64 { return (g.Start%g.Interval + g.Interval) % g.Interval }

// complete evaluates n, of which the order may be wanted, at the steps that known, which starts at the given step, lacks.
// It returns the values at all steps and how many of these were known.
func (r *run) complete(n *plan.Aggregate, ordered bool, known *results.Piece, from int) (v *results.Values, kept int, err error) {
	steps, series := r.job.Grid.Steps, r.Matrix.Work.Series
	defer func() { r.Matrix.Work.Series = series + r.got.sel.NumSeries() }()
	if known != nil {
		kept = known.To - known.From
	}
	// Each evaluation goes over all series, so a few steps are not worth two.
	if kept < steps/4 || kept == 0 {
		v, err = r.part(n, ordered, 0, steps)
		return v, 0, err
	}
	var pieces []results.Piece
	evaluated := int64(0) // bytes
	if from > 0 {
		before, err := r.part(n, ordered, 0, from)
		if err != nil {
			return nil, 0, err
		}
		evaluated += operator.RowsBytes(before.Rows)
		pieces = append(pieces, results.Piece{Values: before, To: from})
	}
	pieces = append(pieces, *known)
	if to := from + kept; to < steps {
		// From one step earlier on, to know which samples are new at the first.
		after, err := r.part(n, ordered, to-1, steps)
		if err != nil {
			return nil, 0, err
		}
		evaluated += operator.RowsBytes(after.Rows)
		pieces = append(pieces, results.Piece{Values: after, From: 1, To: steps - to + 1})
	}
	v = results.Join(pieces...)
	r.Charge(operator.RowsBytes(v.Rows) - evaluated)
	return v, kept, r.Done()
}

// part evaluates n at steps from from to to, the end excluded.
func (r *run) part(n *plan.Aggregate, ordered bool, from, to int) (*results.Values, error) {
	g := r.job.Grid
	sub := r.on(plan.Grid{Start: g.At(from), Interval: g.Interval, Steps: to - from}, n)
	sub.got = r.got
	if ordered {
		sub.firsts = &firsts{}
	}
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
		v.First, v.Series = sub.firsts.of, r.got.sel.Series()
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

// certainlyFits reports whether the sample limit holds for a leaf whatever its
// values: how many samples Prometheus's engine would hold is not remembered.
func (r *run) certainlyFits(leaf rememberable, src *source) bool {
	g, sel := r.job.Grid, src.sel
	constants := 1 + leaf.window.Func.Param.Count() // that of the aggregation, and the window's
	for _, n := range leaf.maps {
		constants = max(constants, 1+leaf.window.Func.Param.Count()+n.(*plan.Map).Scalars)
	}
	rest := r.Held + constants*(g.Steps+1) + sel.NumSeries()
	results := 1 // held at once
	if len(leaf.maps) > 0 {
		results = 2
	}
	if r.MayHold(rest + results*sel.NumSeries()*g.Steps + int(sel.NumSamples())) {
		return true
	}
	mint, maxt := leaf.window.Reads(g)
	width, _ := leaf.window.Reach()
	points, most := 0, 0
	for i := range sel.NumSeries() {
		cs := sel.Overlapping(i, mint, maxt)
		if len(cs) == 0 {
			continue
		}
		from, to := max(cs[0].MinT, mint), min(cs[len(cs)-1].MaxT, maxt)
		points += int(min((to-from+width)/g.Interval+1, int64(g.Steps)))
		most = max(most, int(column.CountSamples(cs)))
	}
	return r.MayHold(rest + results*points + most)
}

// firsts are the first series with a value of the groups of an aggregation: for each
// row one for each of its values.
type firsts struct{ of [][]int32 }
