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
	// Overlaps reports, after an evaluation, whether start timestamps overlap in some window.
	// Prometheus's engine says at how many steps they do, so nothing of it is stored.
	Overlaps func() bool
}

// Evaluate returns the leaf's rows at all steps of q, from what memory has of it and what is
// evaluated, and stores what is settled.
func (l *Leaf) Evaluate(q *operator.Query, memory *results.Memory, s Source) ([]plan.Row, plan.KeptSteps, error) {
	g, p, series := q.Grid, s.Selection.Provenance(), q.Matrix.Work.Series
	var reach results.Reach
	reach.Width, reach.Offset = l.Window.Reach()
	key := results.Key{Selector: p.Selector, Leaf: l.form, Interval: g.Interval, Phase: phase(g)}
	known, from := memory.Lookup(key, reach, g, p)
	v, reused, err := complete(q, s.Evaluate, known, from)
	q.Matrix.Work.Series = series + s.Selection.NumSeries()
	if err != nil {
		return nil, plan.KeptSteps{}, err
	}
	if !s.Overlaps() {
		memory.Store(key, reach, v, p)
	}
	if l.Ordered && reused > 0 {
		v.Order()
	}
	memory.Count(reused, g.Steps-reused)
	for k, all := range v.All {
		q.Matrix.SamplesAtStep[k] += all
		if k > 0 {
			all = v.Fresh[k]
		}
		q.Matrix.NewSamplesAtStep[k] += all
	}
	return v.Rows, plan.KeptSteps{Kept: reused, Evaluated: g.Steps - reused}, nil
}

// phase is the time from a multiple of the interval to the next step in ms.
func phase(g plan.Grid) int64 { return (g.Start%g.Interval + g.Interval) % g.Interval }

// complete evaluates the steps that known, which starts at step from, lacks. It returns the
// values at all steps and how many of these were known.
func complete(q *operator.Query, evaluate Evaluate, known *results.StepRange, from int) (v *results.Values, reused int, err error) {
	steps := q.Grid.Steps
	if known != nil {
		reused = known.To - known.From
	}
	// Each evaluation goes over all series, so a few steps are not worth two.
	if reused < steps/4 || reused == 0 {
		v, err = evaluate(0, steps)
		return v, 0, err
	}
	var ranges []results.StepRange
	evaluated := int64(0) // bytes
	if from > 0 {
		before, err := evaluate(0, from)
		if err != nil {
			return nil, 0, err
		}
		evaluated += operator.RowsBytes(before.Rows)
		ranges = append(ranges, results.StepRange{Values: before, To: from})
	}
	ranges = append(ranges, *known)
	if to := from + reused; to < steps {
		// From one step earlier on, to know which samples are new at the first.
		after, err := evaluate(to-1, steps)
		if err != nil {
			return nil, 0, err
		}
		evaluated += operator.RowsBytes(after.Rows)
		ranges = append(ranges, results.StepRange{Values: after, From: 1, To: steps - to + 1})
	}
	v = results.Join(ranges...)
	q.Charge(operator.RowsBytes(v.Rows) - evaluated)
	return v, reused, q.Done()
}

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
