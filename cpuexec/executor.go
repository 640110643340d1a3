// Package cpuexec evaluates plan nodes on the CPU's cores.
//
// Where an aggregation has groups enough for all cores, a goroutine decodes and
// windows all series of a group, one after another, and adds each to it. Else series
// are decoded and windowed in batches, one series a goroutine; then the batch is
// aggregated, one stretch of steps a goroutine. So every addition happens in the
// order in which Prometheus's engine makes it, and the answer has the same bits on
// any number of cores.
package cpuexec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Executor evaluates plan nodes. It is safe for concurrent use.
type Executor struct {
	workers int
	scratch sync.Pool // of *worker
	hot     *column.Set
}

// Options configure an Executor.
type Options struct {
	// Workers is the number of goroutines that evaluate a node; 0 means one a
	// core.
	Workers int
	// DecodedBytes is the most memory that the decoded columns of series that
	// are asked for again and again may take. 0 means none are kept.
	DecodedBytes int64
}

// New returns an executor.
func New(o Options) *Executor {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return &Executor{
		workers: o.Workers, scratch: sync.Pool{New: func() any { return new(worker) }},
		hot: column.NewSet(o.DecodedBytes),
	}
}

// DecodedBytes is the memory that decoded columns take.
func (x *Executor) DecodedBytes() int64 { return x.hot.SizeBytes() }

// Job is a node to evaluate and what its evaluation depends on.
type Job struct {
	Node plan.Node
	Grid plan.Grid
	// Select fetches what the window at the bottom of the node reads when it is
	// evaluated on a grid.
	Select func(ctx context.Context, w *plan.Window, g plan.Grid) (*selection.Selection, annotations.Annotations, error)

	// Accelerator, if there is one, may compute leaves in place of the cores.
	Accelerator Accelerator

	// Results, if there are any, remember what leaves came to for jobs with the same
	// options. The order of the result's rows means nothing then, and its Peak is that
	// of what was evaluated. Noted is told of the leaves.
	Results *results.Memory
	Noted   func(leaf plan.Node, steps plan.KeptSteps)

	Budget             *operator.Budget
	MaxSamples         int  // Prometheus's limit on samples held at once; 0 means none
	DelayedNameRemoval bool // metric names are removed when the query ends, not here
	TypeAndUnitLabels  bool // the engine reads __type__ labels
	StartTimestamps    bool // the engine uses start timestamps

	remembered map[*plan.Aggregate]rememberable
}

// Run evaluates the job's node. Its errors are those of Prometheus's engine;
// a *SelectError wraps what Select returned and a *plan.Declined says that the
// data turned out to be something the executor cannot evaluate. The matrix is to be
// released.
func (x *Executor) Run(ctx context.Context, job Job) (m *plan.Matrix, err error) {
	if job.Results != nil {
		job.remembered = map[*plan.Aggregate]rememberable{}
		findRememberable(job.Node, false, job.remembered)
	}
	r := newRun(ctx, x, job)
	r.latest = &window.Latest{}
	defer func() {
		r.latest.Release()
		if m == nil { // whether it failed or panicked
			r.Matrix.Release()
		}
	}()
	rows, err := r.node(job.Node)
	if err != nil {
		var d *plan.Declined
		if errors.As(err, &d) {
			d.Lost += r.Matrix.Work.Samples
		}
		return nil, err
	}
	if err := r.Done(); err != nil {
		return nil, err // rows may be only some of those there are
	}
	r.Matrix.Rows = rows
	r.Matrix.Work.ResultSeries = len(rows)
	r.Matrix.Work.ResultPoints = r.Matrix.Points()
	return r.Matrix, nil
}

// SelectError wraps an error of Job.Select.
type SelectError struct {
	Err error
	// Bare says that Prometheus's engine passes the error on as it is.
	Bare bool
}

func (e *SelectError) Error() string { return e.Err.Error() }

func (e *SelectError) Unwrap() error { return e.Err }

// run is the evaluation of one job.
type run struct {
	*operator.Query
	x        *Executor
	job      Job
	got      got            // what was fetched last
	latest   *window.Latest // shared with evaluations below
	overlaps bool           // start timestamps do, in some window
	// firsts, if it is there, takes the first series of the node's groups.
	firsts *firsts
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
		if leaf, ok := r.job.remembered[n]; ok {
			return r.remember(n, leaf)
		}
		return r.aggregate(n)
	case *plan.Binary, *plan.Set, *plan.StepMap:
		rows, err := r.collectCombined(n, nil)
		if err == nil && merges(n) {
			rows, err = mergeRows(r.Query, rows)
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

// chained evaluates a node that looks at one series at a time, or sorts them.
func (r *run) chained(n plan.Node) ([]plan.Row, error) {
	bottom, c := underChain(n)
	if w, ok := bottom.(*plan.Window); ok {
		return r.collect(w, c)
	}
	if combines(bottom) {
		return r.collectCombined(bottom, c)
	}
	in, err := r.node(n.Inputs()[0])
	if err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *plan.Relabel:
		return relabel(r.Query, n, in)
	case *plan.Sort:
		return sorted(r.Query, n, in)
	default:
		return mapped(r.Query, n.(*plan.Map), in)
	}
}

// collect evaluates a window, and the chain above it, to rows.
func (r *run) collect(w *plan.Window, above chain) ([]plan.Row, error) {
	c := &operator.Collector{}
	err := r.window(w, above, func(s *source) operator.Sink { c.N, c.Labels = len(s.labels), s.resultLabels; return c })
	return c.Rows, err
}

func (r *run) aggregate(n *plan.Aggregate) ([]plan.Row, error) {
	var p aggregate.Parameter
	if n.Func.Param {
		var err error
		if p, err = r.parameter(n); err != nil {
			return nil, err
		}
		// Prometheus's engine holds the parameter's samples meanwhile.
		r.Held += r.job.Grid.Steps
		defer func() { r.Held -= r.job.Grid.Steps }()
		if r.Matrix.Peak = max(r.Matrix.Peak, r.Held); r.job.MaxSamples > 0 && r.Held > r.job.MaxSamples {
			return nil, promql.ErrTooManySamples("query execution")
		}
	}
	switch {
	case n.Func.Keeps:
		return r.selected(n, p)
	case n.Func.Adds():
		a, err := r.accumulate(n)
		if err != nil {
			return nil, err
		}
		rows := a.Rows()
		if r.firsts != nil {
			r.firsts.of = a.FirstSeries(rows)
		}
		r.Free(a, rows)
		return rows, nil
	}
	if bottom, above := underChain(n.Input); r.job.Accelerator != nil && n.Label == "" {
		if w, ok := bottom.(*plan.Window); ok {
			return r.quantilesOver(n, p, w, above)
		}
	}
	in, err := r.node(n.Input)
	if err != nil {
		return nil, err
	}
	defer r.Charge(-operator.RowsBytes(in))
	if n.Label != "" {
		return aggregate.CountValues(r.Query, n, in)
	}
	return aggregate.Quantiles(r.Query, n, p, in)
}

// selected evaluates an operator that keeps some of its input's series.
func (r *run) selected(n *plan.Aggregate, p aggregate.Parameter) ([]plan.Row, error) {
	var s aggregate.Selector = aggregate.Nothing{}
	none, fails := p.Check(r.Query, n)
	err := r.feed(n, func(in aggregate.Input) operator.Sink {
		if !none && fails == nil {
			s = aggregate.NewSelector(n, p, r.Query, in)
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	if fails != nil {
		return nil, fails // once the input has been evaluated without an error
	}
	return s.Rows(r.Query), nil
}

// quantilesOver evaluates the quantile operator over a window and the chain above
// that.
func (r *run) quantilesOver(n *plan.Aggregate, p aggregate.Parameter, w *plan.Window, above chain) ([]plan.Row, error) {
	var q *aggregate.Quantiler
	err := r.window(w, above, func(s *source) operator.Sink {
		q = aggregate.NewQuantiler(n, r.Query, s.input(n))
		return q
	})
	if err != nil {
		return nil, err
	}
	return q.Results(r.Query, p)
}

// accumulate evaluates an aggregation that adds value to value.
func (r *run) accumulate(n *plan.Aggregate) (a *aggregate.Adder, err error) {
	defer r.Holding()()
	err = r.feed(n, func(in aggregate.Input) operator.Sink {
		a = aggregate.NewAdder(n, r.Query, in, r.firsts != nil)
		return a
	})
	return a, err
}
