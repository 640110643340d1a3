// Package cpuexec evaluates plan nodes on the CPU's cores.
//
// A Job goes into an Executor, a plan.Matrix of rows comes out. build.go has the one switch from
// plan nodes to what evaluates them; the rooms below do the work: decode and column read samples,
// window makes one value a step of them, aggregate adds series to groups, vector and histogram
// work on rows; reuse.go finds what is known already. Each window, and what aggregates it, is first
// offered to an accelerator (offer.go).
//
// Where an aggregation has groups enough for all cores, a goroutine decodes and
// windows all series of a group, one after another, and adds each to it. Where it has fewer,
// each series is decoded and windowed by some goroutine and added to its group when its turn
// has come. For other sinks series are decoded and windowed in batches, one series a goroutine;
// then the sink consumes the batch, one range of steps a goroutine. So every addition happens in
// the order in which Prometheus's engine makes it, and the answer has the same bits on
// any number of cores.
//
// Start with Executor.Run and evaluation.build.
package cpuexec

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// Executor evaluates plan nodes. It is safe for concurrent use.
type Executor struct {
	workers int
	scratch sync.Pool // of *worker
	columns *column.Set
}

// Options configure an Executor.
type Options struct {
	// Workers is the number of goroutines that evaluate a node; 0 means one a
	// core.
	Workers int
	// DecodedBytes is the most memory that the decoded columns of series may take. 0 means
	// none are retained.
	DecodedBytes int64
}

// New returns an executor.
func New(o Options) *Executor {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return &Executor{
		workers: o.Workers, scratch: sync.Pool{New: func() any { return new(worker) }},
		columns: column.NewSet(o.DecodedBytes),
	}
}

// Columns are the decoded columns that are retained.
func (x *Executor) Columns() *column.Set { return x.columns }

// Job is a node to evaluate and what its evaluation depends on.
type Job struct {
	Node plan.Node
	Grid plan.Grid
	// Select fetches what the window at the bottom of the node reads when it is
	// evaluated on a grid.
	Select func(ctx context.Context, w *plan.Window, g plan.Grid) (*selection.Selection, annotations.Annotations, error)

	// Accelerator, if there is one, may compute leaves in place of the cores. Forced says that
	// it is to compute all that it can.
	Accelerator offload.Accelerator
	Forced      bool

	// Results, if there are any, hold what leaves came to for jobs with the same
	// options. The order of the result's rows means nothing then, and its Peak is that
	// of what was evaluated. Noted is told of the leaves.
	Results *results.Memory
	Noted   func(leaf plan.Node, steps plan.KeptSteps)

	// Work, if it is not nil, returns where what a node took is noted; nil is nowhere.
	Work func(n plan.Node) *plan.NodeWork

	// Ahead, if there is one, has what was evaluated before all samples had come. It is of the
	// same node, grid and options.
	Ahead *Ahead

	// Progress is told of samples whose windows were evaluated; it may be nil.
	Progress *selection.Progress

	Budget             *operator.Budget
	MaxSamples         int  // Prometheus's limit on samples held at once; 0 means none
	DelayedNameRemoval bool // metric names are removed when the query ends, not here
	TypeAndUnitLabels  bool // the engine reads __type__ labels
	StartTimestamps    bool // the engine uses start timestamps
	CountSamples       bool // the matrix says how many samples each step read

	reusable map[*plan.Aggregate]*reusable
	merging  bool // see operator.Query
}

// Run evaluates the job's node. Its errors are those of Prometheus's engine, but for a
// *plan.Declined, which says that the data turned out to be something the executor cannot
// evaluate. The matrix is to be released. Where series turn out to become the same, the node is evaluated once more, and they are
// merged.
func (x *Executor) Run(ctx context.Context, job Job) (*plan.Matrix, error) {
	used := job.Budget.Used()
	m, err := x.run(ctx, job)
	var d *plan.Declined
	if !errors.As(err, &d) || !d.Merges {
		return m, err
	}
	if err := job.Budget.Charge(used - job.Budget.Used()); err != nil {
		return nil, err
	}
	job.Results, job.Ahead, job.merging = nil, nil, true
	return x.run(ctx, job)
}

func (x *Executor) run(ctx context.Context, job Job) (m *plan.Matrix, err error) {
	if job.Results != nil || job.Ahead != nil {
		job.reusable = reusables(job.Node)
	}
	r := newEvaluation(ctx, x, job)
	defer func() {
		if m == nil { // whether it failed or panicked
			r.Matrix.Release()
		}
	}()
	rows, err := operator.Rows(r.build(job.Node))
	if err != nil {
		if d, ok := errors.AsType[*plan.Declined](err); ok {
			d.Lost += r.Matrix.Work.Samples
		}
		return nil, err
	}
	if err := r.Done(); err != nil {
		return nil, err // rows may be only some of those there are
	}
	if job.DelayedNameRemoval && job.Node.DropsName() {
		if rows, err = vector.WithoutNames(r.Query, rows); err != nil {
			return nil, err
		}
	}
	r.Matrix.Rows = rows
	r.Matrix.Work.ResultSeries = len(rows)
	r.Matrix.Work.ResultPoints = r.Matrix.Points()
	return r.Matrix, nil
}
