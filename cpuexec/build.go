package cpuexec

import (
	"context"
	"fmt"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// run is the evaluation of one job.
type run struct {
	*operator.Query
	x        *Executor
	job      Job
	fetched  fetched        // what was fetched last
	latest   *window.Latest // shared with evaluations below
	overlaps bool           // start timestamps do, in some window
	// With ordered, the node is an aggregation of which it is noted in first, for each of its
	// rows and values, which series was the first of the group with a value.
	ordered bool
	first   [][]int32
}

// newRun begins the evaluation of a job.
func newRun(ctx context.Context, x *Executor, job Job) *run {
	q := operator.NewQuery(ctx, job.Grid, x.workers)
	q.Budget, q.MaxSamples, q.DelayedNameRemoval = job.Budget, job.MaxSamples, job.DelayedNameRemoval
	q.Matrix.DropName = job.Node.DropsName()
	return &run{x: x, job: job, Query: q}
}

func (r *run) node(n plan.Node) ([]plan.Row, error) {
	if releases(n) {
		defer r.Holding()()
	}
	switch n := n.(type) {
	case *plan.Window:
		return r.collect(n, nil)
	case *plan.Map, *plan.Relabel, *plan.Sort:
		return r.chained(n)
	case *plan.Subwindow:
		return r.subwindow(n)
	case *plan.Aggregate:
		if leaf, ok := r.job.reusable[n]; ok {
			return r.reuse(n, leaf)
		}
		return r.aggregate(n)
	case *plan.Binary, *plan.Set, *plan.StepMap:
		rows, err := r.collectCombined(n, nil)
		if err == nil && vector.Merges(n) {
			rows, err = vector.Merge(r.Query, rows)
		}
		return rows, err
	case *plan.Number, *plan.Time, *plan.Scalar, *plan.ScalarOp, *plan.Vector, *plan.Date:
		return r.scalar(n)
	case *plan.Once:
		return r.once(n)
	case *plan.Nothing:
		return nil, nil
	case *plan.Failure:
		return nil, n.Err
	case *plan.Histogram:
		return r.histogram(n)
	case *plan.Absent:
		return r.absent(n)
	case *plan.Info:
		return r.info(n)
	}
	return nil, fmt.Errorf("cpuexec: unknown node %T", n)
}

// releases reports whether Prometheus's engine, when it has evaluated n, counts as held no
// more than it did before and the result. The function info goes on to count its input and
// the info series, until something above it does so.
func releases(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Window, *plan.Relabel, *plan.Subwindow, *plan.Info:
		return false
	case *plan.Map:
		return !n.Func.InPlace
	}
	return true
}

// chained evaluates a node that looks at one series at a time, or sorts them.
func (r *run) chained(n plan.Node) ([]plan.Row, error) {
	bottom, c := vector.Under(n)
	if w, ok := bottom.(*plan.Window); ok {
		return r.collect(w, c)
	}
	if vector.Combines(bottom) {
		return r.collectCombined(bottom, c)
	}
	in, err := r.node(n.Inputs()[0])
	if err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *plan.Relabel:
		return vector.Relabel(r.Query, n, in)
	case *plan.Sort:
		return vector.Sort(r.Query, n, in)
	default:
		return vector.Map(r.Query, n.(*plan.Map), in)
	}
}

// collect evaluates a window, and the chain above it, to rows.
func (r *run) collect(w *plan.Window, above vector.Chain) ([]plan.Row, error) {
	c := &operator.Collector{}
	err := r.window(w, above, func(s *source) operator.Sink { c.N, c.Labels = len(s.labels), s.resultLabels; return c })
	return c.Rows, err
}
