// Package cpuexec evaluates plan nodes on the CPU's cores.
//
// Series are decoded and windowed in batches, one series a goroutine; then the
// batch is aggregated, one stretch of steps a goroutine. So every addition
// happens in the order in which Prometheus's engine makes it, and the answer
// has the same bits on any number of cores.
package cpuexec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Executor evaluates plan nodes. It is safe for concurrent use.
type Executor struct {
	workers int
	scratch sync.Pool // of *worker
}

// New returns an executor that uses up to workers goroutines for a node; 0
// means one a core.
func New(workers int) *Executor {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &Executor{workers: workers, scratch: sync.Pool{New: func() any { return new(worker) }}}
}

// Job is a node to evaluate and what its evaluation depends on.
type Job struct {
	Node plan.Node
	Grid plan.Grid
	// Select fetches what the window at the bottom of the node reads when it is
	// evaluated on a grid.
	Select func(ctx context.Context, w *plan.Window, g plan.Grid) (*selection.Selection, annotations.Annotations, error)

	MaxSamples         int  // Prometheus's limit on samples held at once; 0 means none
	DelayedNameRemoval bool // metric names are removed when the query ends, not here
	TypeAndUnitLabels  bool // the engine reads __type__ labels
	StartTimestamps    bool // the engine uses start timestamps
}

// Run evaluates the job's node. Its errors are those of Prometheus's engine;
// a *SelectError wraps what Select returned and a *plan.Declined says that the
// data turned out to be something the executor cannot evaluate.
func (x *Executor) Run(ctx context.Context, job Job) (*plan.Matrix, error) {
	r := &run{x: x, ctx: ctx, job: job, m: newMatrix(job)}
	rows, err := r.node(job.Node)
	if err != nil {
		return nil, err
	}
	r.m.Rows = rows
	r.m.Work.ResultSeries = len(rows)
	r.m.Work.ResultPoints = r.m.Points()
	return r.m, nil
}

func newMatrix(job Job) *plan.Matrix {
	return &plan.Matrix{
		Grid: job.Grid, DropName: job.Node.DropsName(),
		SamplesAtStep: make([]int64, job.Grid.Steps), NewSamplesAtStep: make([]int64, job.Grid.Steps),
	}
}

// SelectError wraps an error of Job.Select.
type SelectError struct{ Err error }

func (e *SelectError) Error() string { return e.Err.Error() }
func (e *SelectError) Unwrap() error { return e.Err }

// run is the evaluation of one job.
type run struct {
	x   *Executor
	ctx context.Context
	job Job
	m   *plan.Matrix
	// held is the number of samples that Prometheus's engine would hold besides
	// those of the node being evaluated.
	held int
}

func (r *run) node(n plan.Node) ([]plan.Row, error) {
	switch n := n.(type) {
	case *plan.Window:
		return r.collect(n, n, nil)
	case *plan.Map:
		if w, chain := mapsOverWindow(n); w != nil {
			return r.collect(n, w, chain)
		}
		in, err := r.node(n.Input)
		if err != nil {
			return nil, err
		}
		return r.mapped(n, in)
	case *plan.Subwindow:
		return r.subwindow(n)
	case *plan.Aggregate:
		return r.aggregate(n)
	}
	return nil, fmt.Errorf("cpuexec: unknown node %T", n)
}

// mapsOverWindow takes maps right above a window apart: the window, and the
// maps in the order in which they apply. It returns no window if n is anything
// else.
func mapsOverWindow(n plan.Node) (w *plan.Window, chain []*plan.Map) {
	for {
		switch x := n.(type) {
		case *plan.Map:
			chain = append(chain, x)
			n = x.Input
		case *plan.Window:
			slices.Reverse(chain)
			return x, chain
		default:
			return nil, nil
		}
	}
}

// collect evaluates a window, and maps above it, to rows. top is the uppermost
// of them.
func (r *run) collect(top plan.Node, w *plan.Window, chain []*plan.Map) ([]plan.Row, error) {
	c := &collector{steps: r.job.Grid.Steps}
	err := r.window(top, w, chain, func(s *source) sink { c.source = s; return c })
	return c.rows, err
}

func (r *run) aggregate(n *plan.Aggregate) ([]plan.Row, error) {
	if n.Func.Param {
		// Prometheus's engine holds the parameter's samples meanwhile.
		r.held += r.job.Grid.Steps
		defer func() { r.held -= r.job.Grid.Steps }()
		in, err := r.node(n.Input)
		if err != nil {
			return nil, err
		}
		return r.quantiles(n, in)
	}
	var a *aggregator
	if w, chain := mapsOverWindow(n.Input); w != nil {
		err := r.window(n.Input, w, chain, func(s *source) sink {
			a = newAggregator(n, r, len(s.labels), s.labelsFor(n))
			return a
		})
		if err != nil {
			return nil, err
		}
		return a.rows(), nil
	}
	in, err := r.node(n.Input)
	if err != nil {
		return nil, err
	}
	a = newAggregator(n, r, len(in), func(i int) labels.Labels { return in[i].Labels })
	if err := r.rows(in, a); err != nil {
		return nil, err
	}
	return a.rows(), nil
}

// mapped applies a map to the rows of an inner result.
func (r *run) mapped(m *plan.Map, in []plan.Row) ([]plan.Row, error) {
	held, series := 0, len(in)
	for i := range in {
		held += len(in[i].Values)
	}
	out := mapRows(in, newMapper(m), r.job.Grid.Steps)
	kept := 0
	seen := map[uint64]struct{}{}
	for i := range out {
		kept += len(out[i].Values)
		if !m.Filters() && !r.job.DelayedNameRemoval {
			out[i].Labels = dropNames(out[i].Labels)
			h := out[i].Labels.Hash()
			if _, ok := seen[h]; ok {
				return nil, &plan.Declined{Scan: plan.Source(m).Scan, Reason: reasonCollide}
			}
			seen[h] = struct{}{}
		}
	}
	return out, r.checkMapped(m, held, kept, series)
}

// checkMapped raises Prometheus's error if a map's input, its constants and its
// result are more samples than may be held at once. in and out are samples,
// series is the number of series that the input has at most at one step.
// Prometheus holds the step's own input beside them; where only that decides, it
// is left to decide.
func (r *run) checkMapped(m *plan.Map, in, out, series int) error {
	if m.Func.Name == "neg" {
		return nil // changes its input in place
	}
	least := r.held + in + m.Scalars*r.job.Grid.Steps + out
	most := least + series + m.Scalars
	r.m.Peak = max(r.m.Peak, least)
	switch limit := r.job.MaxSamples; {
	case limit <= 0 || most <= limit:
		return nil
	case least > limit:
		return promql.ErrTooManySamples("query execution")
	}
	return &plan.Declined{Scan: plan.Source(m).Scan, Reason: "it is so close to the sample limit that only Prometheus's engine can tell on which side"}
}

const reasonCollide = "it selects several metrics whose series become the same when their names are dropped"

// done returns Prometheus's error for a query whose context has ended.
func (r *run) done() error {
	switch err := r.ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return promql.ErrQueryTimeout("expression evaluation")
	default:
		return promql.ErrQueryCanceled("expression evaluation")
	}
}

// source is the input of a window: its series, and how their labels look after
// the window function.
type source struct {
	sel    *selection.Selection
	labels []labels.Labels
	// mayCollide says that two series may have the same labels once the
	// function has dropped their names.
	mayCollide bool
	drops      bool
}

func (s *source) labelsFor(a *plan.Aggregate) func(int) labels.Labels {
	if s.drops && namesMatter(a) {
		return func(i int) labels.Labels { return dropNames(s.labels[i]) }
	}
	return func(i int) labels.Labels { return s.labels[i] }
}

// open gets the samples of w. top is the uppermost of the maps above it, or w.
func (r *run) open(top plan.Node, w *plan.Window) (*source, error) {
	start := time.Now()
	sel, ws, err := r.job.Select(r.ctx, w, r.job.Grid)
	r.m.Work.FetchMicros += time.Since(start).Microseconds()
	r.m.Annotations.Merge(ws)
	if d := r.done(); d != nil {
		return nil, d
	}
	if err != nil {
		return nil, &SelectError{err}
	}
	if !sel.OnlyFloats() {
		return nil, &plan.Declined{Scan: w.Scan, Reason: "it selects native histograms, which are not on an executor yet"}
	}
	if w.Func.StartTime && r.job.StartTimestamps && hasStartTimes(sel) {
		return nil, &plan.Declined{Scan: w.Scan, Reason: "it selects samples with start timestamps, which are not on an executor yet"}
	}
	s := &source{sel: sel, drops: top.DropsName() && !r.job.DelayedNameRemoval}
	s.labels = make([]labels.Labels, sel.NumSeries())
	for i := range s.labels {
		s.labels[i] = sel.Labels(i)
	}
	if s.drops && namesDiffer(s.labels) {
		if w.Func.KeepsName {
			// Where maps drop the names, Prometheus's engine merges series or
			// fails, step by step.
			return nil, &plan.Declined{Scan: w.Scan, Reason: reasonCollide}
		}
		s.mayCollide = true
	}
	return s, nil
}

// hasStartTimes looks at the header byte in which XOR2 chunks say so.
func hasStartTimes(s *selection.Selection) bool {
	if !s.Has(chunkenc.EncXOR2) {
		return false
	}
	for i := range s.NumSeries() {
		for _, c := range s.Chunks(i) {
			if b := s.Bytes(c); c.Enc == chunkenc.EncXOR2 && (len(b) < 3 || b[2] != 0) {
				return true
			}
		}
	}
	return false
}

// namesDiffer reports whether the series differ in labels that a range function
// drops.
func namesDiffer(ls []labels.Labels) bool {
	first := ""
	for i, l := range ls {
		name := l.Get(model.MetricNameLabel)
		if i == 0 {
			first = name
		}
		if name != first || l.Has(model.MetricTypeLabel) || l.Has(model.MetricUnitLabel) {
			return true
		}
	}
	return false
}

// check ends a window: it raises what Prometheus's engine raises once it has
// evaluated a range function over all series.
func (r *run) check(w *plan.Window, s *source, hasPoints []bool) error {
	if w.Func.Counter {
		var ls []labels.Labels
		for i, l := range s.labels {
			if hasPoints[i] {
				ls = append(ls, l)
			}
		}
		r.warnNonCounters(w.ArgPos, ls)
	}
	if !s.mayCollide {
		return nil
	}
	seen := map[uint64]struct{}{}
	for i, l := range s.labels {
		if !hasPoints[i] {
			continue
		}
		h := dropNames(l).Hash()
		if _, ok := seen[h]; ok {
			return errSameLabels
		}
		seen[h] = struct{}{}
	}
	return nil
}

// warnNonCounters notes metrics that a function for counters has a value for
// and that do not look like counters. pos is the position of its argument.
func (r *run) warnNonCounters(pos posrange.PositionRange, ls []labels.Labels) {
	last := ""
	for _, l := range ls {
		name := l.Get(model.MetricNameLabel)
		if name == "" {
			continue
		}
		if r.job.TypeAndUnitLabels {
			if t := l.Get(model.MetricTypeLabel); t != string(model.MetricTypeCounter) && t != string(model.MetricTypeHistogram) {
				r.m.Annotations.Add(annotations.NewPossibleNonCounterLabelInfo(name, t, pos))
			}
			continue
		}
		if name != last && !looksLikeCounter(name) {
			r.m.Annotations.Add(annotations.NewPossibleNonCounterInfo(name, pos))
		}
		last = name
	}
}
