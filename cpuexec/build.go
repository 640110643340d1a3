package cpuexec

import (
	"context"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

// evaluation is that of one job.
type evaluation struct {
	*operator.Query
	x        *Executor
	job      Job
	fetched  fetched // what was fetched last
	overlaps bool    // start timestamps do, in some window
	varies   bool    // bits of some value may depend on which steps are evaluated
	foreseen bool    // the leaf's results will be remembered
	partial  bool    // of a leaf's steps, of which the others are known, or foreseen
	tick     int64   // of the decoded columns, that of the whole query
}

// newEvaluation begins the evaluation of a job.
func newEvaluation(ctx context.Context, x *Executor, job Job) *evaluation {
	g := job.Grid
	return &evaluation{x: x, job: job, tick: x.columns.Tick(), Query: &operator.Query{
		Context: ctx, Grid: g, Workers: x.workers, Budget: job.Budget,
		MaxSamples: job.MaxSamples, DelayedNameRemoval: job.DelayedNameRemoval, Merging: job.merging,
		Matrix: &plan.Matrix{Grid: g, SamplesAtStep: make([]int64, g.Steps), NewSamplesAtStep: make([]int64, g.Steps)},
	}}
}

// build makes the operator of n, which notes what it took if that is asked for.
func (r *evaluation) build(n plan.Node) operator.Operator {
	bottom, above := vector.Under(n, r.Merging)
	var op operator.Operator
	switch n := bottom.(type) {
	case *plan.Window:
		op = r.window(n, above, r.inputs(n), r.job.Accelerator)
	case *plan.Subwindow:
		op = r.subquery(n, above)
	default:
		op = &vector.Stream{Query: r.Query, Of: r.filler(n), Above: above}
	}
	if r.job.Work != nil {
		if work := r.job.Work(bottom); work != nil {
			return &noted{op, r, work}
		}
	}
	return op
}

// noted is an operator that notes what it took together with those below it, which it drives.
type noted struct {
	operator.Operator
	r    *evaluation
	work *plan.NodeWork
}

// Open implements operator.Operator.
func (o *noted) Open() (*operator.Series, error) {
	defer o.note(time.Now(), o.r.Matrix.Work)
	return o.Operator.Open()
}

// Drive implements operator.Operator.
func (o *noted) Drive(out operator.Sink) error {
	defer o.note(time.Now(), o.r.Matrix.Work)
	return o.Operator.Drive(out)
}

func (o *noted) note(began time.Time, before plan.Work) {
	after := &o.r.Matrix.Work
	o.work.Micros += time.Since(began).Microseconds()
	o.work.Series += after.Series - before.Series
	o.work.Samples += after.Samples - before.Samples
	o.work.Kept += after.Kept - before.Kept
	o.work.Digested += after.Digested - before.Digested
}

// filler is the switch from nodes of a plan, but for windows, to what evaluates them.
func (r *evaluation) filler(n plan.Node) operator.Filler {
	q := r.Query
	switch n := n.(type) {
	case *plan.Aggregate:
		if leaf, ok := r.job.reusable[n]; ok {
			return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) { return r.reuse(leaf) }}
		}
		return r.aggregate(n)
	case *plan.Binary, *plan.Set:
		return vector.NewCombined(q, n, r.inputs(n))
	case *plan.StepMap:
		c := vector.NewCombined(q, n, r.inputs(n))
		if !r.Merging || !vector.Merges(n) {
			return c
		}
		return vector.Merged(q, n, &vector.Stream{Query: q, Of: c})
	case *plan.Map, *plan.Relabel: // that merge
		in := r.build(n.Inputs()[0])
		rows := &operator.Finished{Query: q, Leaks: true, Eval: func() ([]plan.Row, error) { return operator.Rows(in) }}
		return vector.Merged(q, n, &vector.Stream{Query: q, Of: rows, Above: vector.Chain{n}})
	case *plan.Sort: // at a single step
		return vector.NewSort(q, n, r.build(n.Input))
	case *plan.Number, *plan.Time, *plan.Scalar, *plan.ScalarOp, *plan.Vector, *plan.Date:
		return vector.NewScalar(q, n, r.inputs(n))
	case *plan.Absent:
		return vector.NewAbsent(q, n, r.build(n.Input))
	case *plan.Once:
		return r.once(n)
	case *plan.Histogram:
		return r.finished(n, r.histogram(n, r.inputs(n)))
	case *plan.Info:
		return r.finished(n, r.info(n, r.build(n.Input)))
	case *plan.Nothing:
		return r.finished(n, func() ([]plan.Row, error) { return nil, nil })
	case *plan.Failure:
		return r.finished(n, func() ([]plan.Row, error) { return nil, n.Err })
	}
	return r.finished(n, func() ([]plan.Row, error) { return nil, fmt.Errorf("cpuexec: unknown node %T", n) })
}

func (r *evaluation) finished(n plan.Node, eval func() ([]plan.Row, error)) *operator.Finished {
	return &operator.Finished{Query: r.Query, Eval: eval, Leaks: !vector.Releases(n)}
}

// inputs are the operators of the inputs of n.
func (r *evaluation) inputs(n plan.Node) (ops []operator.Operator) {
	for _, in := range n.Inputs() {
		ops = append(ops, r.build(in))
	}
	return ops
}

func (r *evaluation) aggregate(n *plan.Aggregate) *operator.Finished {
	var param operator.Operator
	if n.ParamNode != nil {
		param = r.build(n.ParamNode)
	}
	return aggregate.New(r.Query, n, param, r.build(n.Input))
}
