package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// query is a query of Prometheus's engine in which promwarp computes parts.
//
// The engine preprocesses the query's tree, then asks its queryable for a
// querier, then reads the tree. The query's queryable is a wrapper that, when
// asked, plans the tree and puts stand-ins in place of the planned parts.
type query struct {
	promql.Query // Prometheus's own, of the current attempt

	e      *Engine
	q      storage.Queryable
	mode   Mode
	strict bool
	stats  bool // whether its statistics are asked for
	// again makes a fresh query of Prometheus's engine over a queryable.
	again func(storage.Queryable) (promql.Query, error)

	mu     sync.Mutex
	cancel context.CancelFunc // of Exec

	stmt     *parser.EvalStmt
	excluded map[posrange.PositionRange]string
	parts    []*planner.Part
	root     *plan.Decision
	reads    []reads
	whole    *plan.Matrix   // the result, where it goes around Prometheus's engine
	computed []*plan.Matrix // of the parts
	points   *points        // memory of the result
	budget   *cpuexec.Budget
}

// newQuery makes a query by calling again with the wrapper of q.
func (e *Engine) newQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, again func(storage.Queryable) (promql.Query, error)) (*query, error) {
	mode, strict := modeOf(ctx)
	wq := &query{e: e, q: q, mode: mode, strict: strict, again: again, excluded: map[posrange.PositionRange]string{}}
	wq.stats = statisticsAsked(ctx) || opts != nil && opts.EnablePerStepStats()
	return wq, wq.prepare()
}

func (q *query) prepare() error {
	q.release()
	stock, err := q.again(wrapper{q})
	if err != nil {
		return err
	}
	q.Query = stock
	q.stmt = stock.Statement().(*parser.EvalStmt)
	q.parts, q.root, q.reads = nil, nil, nil
	q.budget = cpuexec.NewBudget(q.e.opts.MaxMemory)
	return nil
}

// Exec implements promql.Query. A part that turns out not to be computable once
// its data is seen is excluded and the query run again, and so it is where the
// storage asks for that (see selection.Again).
func (q *query) Exec(ctx context.Context) *promql.Result {
	ctx, cancel := context.WithTimeout(ctx, q.e.timeout())
	defer cancel()
	q.mu.Lock()
	q.cancel = cancel
	q.mu.Unlock()
	for {
		res := q.Query.Exec(ctx)
		q.restore()
		var d *plan.Declined
		var again *selection.Again
		switch {
		case res.Err == nil:
			return q.finish(res)
		case errors.As(res.Err, &again):
			q.q = again.Queryable
		case errors.As(res.Err, &d):
			if _, ok := q.excluded[d.At.Range()]; ok {
				return &promql.Result{Err: fmt.Errorf("declined twice: %w", d)}
			}
			q.excluded[d.At.Range()] = d.Reason
			q.e.metrics.declined.WithLabelValues(d.Reason).Inc()
		default:
			return q.finish(res)
		}
		q.Query.Close()
		if err := q.prepare(); err != nil {
			return &promql.Result{Err: err}
		}
	}
}

// Cancel implements promql.Query. It may be called while Exec runs.
func (q *query) Cancel() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cancel != nil {
		q.cancel()
	}
}

// finish unwraps the errors of the executors and adds what a forced executor
// could not take.
func (q *query) finish(res *promql.Result) *promql.Result {
	defer q.release()
	var ee *evalError
	if errors.As(res.Err, &ee) {
		res.Err = ee.err
	}
	q.e.metrics.count(q)
	if res.Err == nil {
		for _, r := range q.reads {
			r.add(q.Query.Stats().Samples)
		}
		if q.whole != nil {
			res.Value = q.matrix(q.whole)
		}
	}
	if q.mode != CPU && q.mode != GPU || res.Err != nil {
		return res
	}
	left := q.leftOver()
	if len(left) == 0 {
		return res
	}
	if q.strict {
		q.Query.Close()
		return &promql.Result{Err: &NotTakenError{Mode: q.mode, Parts: left}}
	}
	for _, l := range left {
		res.Warnings.Add(NotTakenWarning{q.mode, l})
	}
	return res
}

// leftOver lists what is not on the executor that the request forced: of the nodes
// that stayed with Prometheus's engine the highest that read samples, and, with
// the GPU forced, the windows that the cores evaluated.
func (q *query) leftOver() []string {
	var out []string
	if q.root == nil {
		return nil
	}
	q.root.Walk(func(d *plan.Decision) {
		if d.Own || q.mode == GPU && d.Executor == plan.OnCPU && d.Reason != "" {
			out = append(out, fmt.Sprintf("%s: %s", d.Expr, d.Reason))
		}
	})
	return slices.Compact(out)
}

// spoil, if it is set, changes values before they are released, for tests of who looks
// at them later.
var spoil func(*plan.Matrix)

// release gives the memory of the parts' values back. Prometheus's engine has run and
// the result is in memory of its own: both have copied them.
func (q *query) release() {
	for _, m := range q.computed {
		if spoil != nil {
			spoil(m)
		}
		m.Release()
	}
	q.computed, q.whole = nil, nil
}

// NotTakenError is the error of a strict request whose forced executor could
// not evaluate all of the query.
type NotTakenError struct {
	Mode  Mode
	Parts []string // expression and reason
}

func (e *NotTakenError) Error() string {
	return fmt.Sprintf("executor=%s with strict=true: parts of the query are not on %s: %s", e.Mode, e.Mode.thing(), strings.Join(e.Parts, "; "))
}

// NotTakenWarning says which part of a query a forced executor could not take.
type NotTakenWarning struct {
	Mode Mode
	Part string
}

func (w NotTakenWarning) Error() string {
	if w.Mode == GPU {
		return "PromQL warning: not evaluated on a GPU: " + w.Part
	}
	return "PromQL warning: evaluated by Prometheus's engine: " + w.Part
}

// Unwrap makes the warning one that Prometheus's API lists under warnings.
func (NotTakenWarning) Unwrap() error { return annotations.PromQLWarning }

// restore puts the planned parts back in place of their stand-ins.
func (q *query) restore() {
	for _, p := range q.parts {
		*p.Slot = p.Expr
	}
}

// evalError marks an error raised by an executor rather than by the storage, so
// that the engine's "expanding series" prefix can be taken off again.
type evalError struct{ err error }

func (e *evalError) Error() string { return e.err.Error() }
func (e *evalError) Unwrap() error { return e.err }

// wrapper is the queryable that Prometheus's engine sees.
type wrapper struct{ q *query }

func (w wrapper) Querier(mint, maxt int64) (storage.Querier, error) {
	inner, err := w.q.q.Querier(mint, maxt)
	if err != nil || w.q.mode == Prometheus {
		return inner, err
	}
	q := w.q
	q.parts, q.root = planner.Plan(q.stmt, planner.Env{
		NoStepSubqueryInterval: q.e.opts.Prometheus.NoStepSubqueryIntervalFn,
		DelayedNameRemoval:     q.e.opts.Prometheus.EnableDelayedNameRemoval,
		Excluded:               q.excluded,
	})
	if len(q.parts) == 0 {
		return inner, nil
	}
	for i, p := range q.parts {
		*p.Slot = standIn(i, p, q.e.opts.Prometheus.EnableDelayedNameRemoval)
	}
	return &querier{Querier: inner, q: q, mint: mint, maxt: maxt}, nil
}

// querier answers for stand-ins and passes every other selector on.
type querier struct {
	storage.Querier
	q          *query
	mint, maxt int64
}

func (qr *querier) Select(ctx context.Context, sortSeries bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	i, ok := standInIndex(ms)
	if !ok {
		return qr.Querier.Select(ctx, sortSeries, hints, ms...)
	}
	p := qr.q.parts[i]
	return &lazySet{
		ctx:     ctx,
		asFloat: qr.q.e.opts.Prometheus.EnableDelayedNameRemoval,
		compute: func(ctx context.Context) (*plan.Matrix, error) { return qr.compute(ctx, p) },
	}
}

func (qr *querier) compute(ctx context.Context, p *planner.Part) (*plan.Matrix, error) {
	o := &qr.q.e.opts.Prometheus
	src := &chunkSource{querier: qr.Querier, queryable: qr.q.q, mint: qr.mint, maxt: qr.maxt, part: p}
	start := time.Now()
	stop := src.prefetch(ctx)
	defer stop()
	job := cpuexec.Job{
		Node: p.Node, Grid: p.Grid, Select: src.selectChunks,
		Accelerator:        qr.q.accelerator(p),
		Budget:             qr.q.budget,
		MaxSamples:         o.MaxSamples,
		DelayedNameRemoval: o.EnableDelayedNameRemoval,
		TypeAndUnitLabels:  o.EnableTypeAndUnitLabels,
		StartTimestamps:    o.UseStartTimestamps,
	}
	if qr.q.remembers(p) {
		job.Results = qr.q.e.results
		job.Noted = func(n plan.Node, steps plan.KeptSteps) { p.Of[n].Remembered = &steps }
	}
	m, err := qr.q.e.cpu.Run(ctx, job)
	if err != nil {
		var sel *cpuexec.SelectError
		if errors.As(err, &sel) {
			return nil, sel.Err
		}
		return nil, &evalError{err}
	}
	qr.q.computed = append(qr.q.computed, m)
	m.Work.EvalMicros = time.Since(start).Microseconds() - m.Work.FetchMicros
	p.Decision.Work = &m.Work
	if qr.q.direct(p) {
		qr.q.reads = append(qr.q.reads, countSamples(qr.q.Query.Stats().Samples, p, m, true))
		return qr.q.takeDirect(m)
	}
	qr.q.reads = append(qr.q.reads, countSamples(qr.q.Query.Stats().Samples, p, m, false))
	return m, nil
}
