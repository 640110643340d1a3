package reuse

import (
	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// FewestSteps is the number of steps below which looking up results is not worth it.
const FewestSteps = 4

// Evaluate evaluates a leaf at steps from to to of a query, the end excluded.
type Evaluate func(from, to int) (*results.Values, error)

// Source is what a leaf reads, and who evaluates it.
type Source struct {
	Selection *selection.Selection // with a provenance
	Evaluate  Evaluate
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
		key = results.Key{Selector: p.Selector, Leaf: l.form, Interval: g.Interval, Phase: phase(g)}
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

// phase is the time from a multiple of the interval to the next step in ms.
func phase(g plan.Grid) int64 { return (g.Start%g.Interval + g.Interval) % g.Interval }

// Fits reports whether the sample limit holds for the leaf whatever its
// values: how many samples Prometheus's engine would hold is not remembered.
func (l *Leaf) Fits(q *operator.Query, sel *selection.Selection) bool {
	g := q.Grid
	constants := 1 + l.Window.Func.Param.Count() // that of the aggregation, and the window's
	for _, n := range l.Maps {
		constants = max(constants, 1+l.Window.Func.Param.Count()+n.(*plan.Map).Scalars)
	}
	rest := q.Held + constants*(g.Steps+1) + sel.NumSeries()
	results := 1 // held at once
	if len(l.Maps) > 0 {
		results = 2
	}
	if q.MayHold(rest + results*sel.NumSeries()*g.Steps + int(sel.NumSamples())) {
		return true
	}
	mint, maxt := l.Window.Reads(g)
	width, _ := l.Window.Reach()
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
	return q.MayHold(rest + results*points + most)
}
