package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
	"go.opentelemetry.io/otel/attribute"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// Query is what the engine's queries are.
type Query = query

// query is a query that executors evaluate, or Prometheus's engine.
type query struct {
	// Query is Prometheus's own: the statement, the statistics, and who evaluates the query where
	// executors do not.
	promql.Query

	e       *Engine
	request Request

	mu     sync.Mutex
	cancel context.CancelFunc // of Exec

	ctx  context.Context // of Exec
	stmt *parser.EvalStmt
	plan *planner.Plan // nil before the query is planned, and where Prometheus's engine was asked for
	// accelerator computes leaves of the plan in place of the cores; nil where none is to.
	accelerator *accelerator
	job         cpuexec.Job   // of the plan
	fetches     *fetches      // nil before anything is read
	matrix      *plan.Matrix  // the result, where it is that of executors
	lease       *memory.Lease // of what the query holds until it is closed
	budget      *operator.Budget
	ceilings    *ceilings
	remembered  bool          // whether results of some steps were
	took        []plan.Ahead  // what was evaluated while samples were on their way
	waited      time.Duration // for samples, once the fetches are closed
	queued      time.Duration // for its turn among evaluations of many samples
	ran         time.Duration // all of it
}

// NewQuery makes the query of a request, a Query, which must be closed.
func (e *Engine) NewQuery(ctx context.Context, r Request) (promql.Query, error) {
	unlist, err := e.life.list(ctx, r.Query)
	if err != nil {
		return nil, err
	}
	defer unlist()
	r.Mode = cmp.Or(r.Mode, Auto)
	r.Exact = cmp.Or(r.Exact, e.opts.Exact, plan.WithinTolerance)
	r.Statistics = r.Statistics || r.Options != nil && r.Options.EnablePerStepStats()
	r.Plan = r.Plan || r.Mode == CPU || r.Mode == GPU // what these could not take is said by its text
	q := &query{e: e, request: r, lease: e.opts.Memory.Lease(memory.Evaluation)}
	if err := q.prepare(ctx); err != nil {
		return nil, err
	}
	return q, nil
}

// prepare has Prometheus's engine parse and preprocess the query.
func (q *query) prepare(ctx context.Context) (err error) {
	r := q.request
	r.Storage = samples{q}
	if q.Query, err = r.By(ctx, q.e.stock); err == nil {
		q.stmt = q.Statement().(*parser.EvalStmt)
	}
	return err
}

// Exec implements promql.Query.
func (q *query) Exec(ctx context.Context) *promql.Result {
	res := q.ExecMatrix(ctx)
	m, ok := res.Value.(*plan.Matrix)
	if !ok {
		return res
	}
	defer q.release()
	out, err := q.copied(m)
	if err == nil {
		err = q.keepResult(out)
	}
	if err != nil {
		return &promql.Result{Err: err}
	}
	res.Value = out
	return res
}

// ExecMatrix is Exec, but where executors computed a range query, the result's value is their
// *plan.Matrix, with the rows sorted by their labels. Its memory is the query's until that is closed.
// Where the storage asks for that (see selection.Again), the query is made anew.
func (q *query) ExecMatrix(ctx context.Context) *promql.Result {
	ctx, cancel := context.WithTimeout(ctx, q.e.opts.Prometheus.Timeout)
	defer cancel()
	q.mu.Lock()
	q.cancel = cancel
	q.mu.Unlock()
	q.ctx = ctx
	began := time.Now()
	defer func() { q.ran = time.Since(began) }()
	if q.e.opts.GPUs != nil {
		defer q.e.opts.GPUs.Serve()()
	}
	defer q.closeFetches()
	for {
		res := q.e.life.of(ctx, q.Query, q.run)
		var again *selection.Again
		if !errors.As(res.Err, &again) {
			if res.Err == nil && q.matrix != nil {
				q.learn(time.Since(began))
			}
			return q.finish(res)
		}
		q.closeFetches()
		q.request.Storage = again.Queryable
		q.Query.Close()
		if err := q.prepare(ctx); err != nil {
			return &promql.Result{Err: err}
		}
	}
}

// run has executors evaluate the query, or Prometheus's engine.
func (q *query) run(ctx context.Context) *promql.Result {
	if err := cmp.Or(q.beginCeilings(), q.beginBudget(ctx)); err != nil {
		return &promql.Result{Err: err}
	}
	if q.request.Mode == Prometheus {
		return q.Query.Exec(ctx)
	}
	res, err := q.onExecutors(ctx)
	var d *plan.Declined
	switch {
	case errors.As(err, &d):
		q.leave(d.At.Range(), d.Reason)
		q.e.metrics.lost.Add(float64(d.Lost))
		err = q.beginBudget(ctx)
	case err == nil && res != nil:
		return res
	}
	if err != nil {
		return &promql.Result{Err: err}
	}
	return q.Query.Exec(ctx)
}

// onExecutors plans the query and evaluates it, with the timers of Prometheus's engine. The result is
// nil if the plan is to have that engine evaluate the query. A *plan.Declined says that the data
// turned out to be something that executors cannot evaluate.
func (q *query) onExecutors(ctx context.Context) (res *promql.Result, err error) {
	defer parallel.Recover(&err)
	timers := q.Stats().Timers
	total, ctx := timers.GetSpanTimer(ctx, stats.ExecTotalTime)
	defer total.Finish()
	evaluating, ctx := timers.GetSpanTimer(ctx, stats.EvalTotalTime)
	defer evaluating.Finish()
	if err := plan.EndedIn(ctx, "query execution"); err != nil {
		return nil, err
	}
	preparing, _ := timers.GetSpanTimer(ctx, stats.QueryPreparationTime)
	err = q.choose()
	preparing.Finish()
	if err != nil || q.plan.Node == nil {
		return nil, err
	}
	inner, ctx := timers.GetSpanTimer(ctx, stats.InnerEvalTime)
	m, err := q.compute(ctx)
	inner.Finish()
	if err != nil {
		return nil, err
	}
	s, g := q.Stats().Samples, m.Grid
	s.UpdatePeak(max(m.Peak, int(m.Points())))
	s.InitStepTracking(g.Start, g.End(), g.Interval)
	for k := range g.Steps {
		s.IncrementSamplesAtStep(k, m.SamplesAtStep[k])
		s.IncrementSamplesReadAtStep(k, m.NewSamplesAtStep[k])
	}
	if most := q.e.opts.Prometheus.MaxSamples; most > 0 && m.Points() > int64(most) {
		return nil, promql.ErrTooManySamples("query execution")
	}
	res = &promql.Result{Value: m, Warnings: m.Annotations}
	switch {
	case q.stmt.Interval > 0: // a matrix with its rows in order
		sorting, _ := timers.GetSpanTimer(q.ctx, stats.ResultSortTime)
		defer sorting.Finish()
		return res, q.sort(m.Rows)
	case q.stmt.Expr.Type() == parser.ValueTypeScalar:
		res.Value = promql.Scalar{T: g.Start, V: m.Rows[0].Values[0]}
		return res, nil
	}
	v := make(promql.Vector, len(m.Rows))
	for i := range m.Rows {
		v[i] = promql.Sample{Metric: m.Rows[i].Labels, T: g.Start, F: m.Rows[i].Values[0]}
	}
	res.Value = v
	return res, nil
}

// compute has executors evaluate the plan.
func (q *query) compute(ctx context.Context) (m *plan.Matrix, err error) {
	p := q.plan
	start := time.Now()
	ctx, span := tracing.Start(ctx, "evaluate")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("kind", p.Root.Kind), attribute.Int("steps", p.Grid.Steps))
	}
	defer func() { tracing.End(span, err) }()
	job := q.job
	job.Select = func(_ context.Context, w *plan.Window, g plan.Grid) (*selection.Selection, annotations.Annotations, error) {
		if w.Func == window.InfoTime {
			sel, ws, err := q.fetches.infoSeries(w, g)
			if err == nil {
				mint, maxt := w.Reads(g)
				err = q.admit(w.Scan, sel, mint, maxt)
			}
			return sel, ws, err
		}
		f := q.fetches.of[w.Scan.Pos] // which was waited for
		return f.sel, f.ws, f.err
	}
	job.Noted = func(n plan.Node, steps plan.KeptSteps) {
		q.remembered = q.remembered || steps.Kept > 0
		if job.Results != nil || steps.Ahead > 0 {
			p.Of[n].Remembered = &steps
		}
	}
	if q.e.opts.GPUs == nil { // which have a queue of their own
		began := time.Now()
		done, err := q.e.Turn(ctx, q.fetches.samples)
		if err != nil {
			return nil, err
		}
		defer done()
		q.queued = time.Since(began)
	}
	if m, err = q.e.cpu.Run(ctx, job); err != nil {
		return nil, err
	}
	m.Work.EvalMicros = (time.Since(start) - q.queued).Microseconds() - m.Work.FetchMicros
	q.waited += time.Duration(m.Work.FetchMicros) * time.Microsecond
	m.Work.FetchMicros += q.fetches.waited.Microseconds()
	p.Root.Work = &m.Work
	for _, w := range readings(p.Node, p.Grid, nil) {
		if work := q.work(w.window); work != nil {
			s := &q.fetches.of[w.window.Scan.Pos].tiles
			work.Cache = &plan.CacheWork{TilesKept: s.TilesHit.Load(), TilesSubsumed: s.TilesSubsumed.Load(), TilesFetched: s.TilesFetched.Load(), TilesRead: s.TilesRead.Load()}
		}
	}
	q.matrix = m
	return m, nil
}

// manySamples is from how many samples on an evaluation takes turns: some milliseconds of a
// core.
const manySamples = 1 << 20

// Turn waits until an evaluation of that number of samples may have the cores; done ends that. It fails
// with Prometheus's error when ctx ends before. Evaluations of many samples take turns,
// since each of them uses all cores: more at once would end no sooner, hold more memory, and keep
// small queries waiting for a core.
func (e *Engine) Turn(ctx context.Context, samples int64) (done func(), err error) {
	if samples < manySamples {
		return func() {}, nil
	}
	if e.turns.Acquire(ctx, 1) != nil {
		return nil, plan.Ended(ctx)
	}
	return func() { e.turns.Release(1) }, nil
}

// work is what a node took, where the plan shows the node, and somebody will read that.
func (q *query) work(n plan.Node) *plan.NodeWork {
	d := q.plan.Of[n]
	if !q.request.Plan || d == nil {
		return nil
	}
	d.Node = cmp.Or(d.Node, &plan.NodeWork{})
	return d.Node
}

// Cancel implements promql.Query. It may be called while Exec runs.
func (q *query) Cancel() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cancel != nil {
		q.cancel()
	}
}

// finish adds what a forced executor could not take.
func (q *query) finish(res *promql.Result) *promql.Result {
	q.e.metrics.count(q)
	if res.Err == nil {
		if err := q.keepResult(res.Value); err != nil {
			res = &promql.Result{Err: err}
		}
	}
	if _, ok := res.Value.(*plan.Matrix); !ok {
		q.release()
	}
	if q.request.Mode != CPU && q.request.Mode != GPU || res.Err != nil {
		return res
	}
	if q.plan == nil {
		return res
	}
	// The expression because of which Prometheus's engine evaluated the query, or, with the GPU
	// forced, the windows that the cores evaluated.
	var left []string
	q.plan.Root.Walk(func(d *plan.Decision) {
		if d.Own || q.request.Mode == GPU && d.Executor == plan.OnCPU && d.Reason != "" {
			left = append(left, fmt.Sprintf("%s: %s", d.Expr, d.Reason))
		}
	})
	if len(left) == 0 {
		return res
	}
	left = slices.Compact(left)
	if q.request.Strict {
		return &promql.Result{Err: &NotTakenError{Mode: q.request.Mode, Parts: left}}
	}
	for _, l := range left {
		res.Warnings.Add(NotTakenWarning{q.request.Mode, l})
	}
	return res
}

// spoil, if it is set, changes values before they are released, for tests of who looks
// at them later.
var spoil func(*plan.Matrix)

// release gives the memory of the executors' values back, which must not be read any more.
func (q *query) release() {
	if q.matrix == nil {
		return
	}
	if spoil != nil {
		spoil(q.matrix)
	}
	q.matrix.Release()
	q.matrix = nil
}

// copied returns m, which is the query's, as Prometheus's engine returns results.
func (q *query) copied(m *plan.Matrix) (promql.Matrix, error) {
	if err := q.budget.Charge(16 * m.Points()); err != nil {
		return nil, err
	}
	out := make(promql.Matrix, len(m.Rows))
	parallel.Ranges(len(m.Rows), func(from, to int) {
		for i := from; i < to; i++ {
			row := &m.Rows[i]
			floats, values := make([]promql.FPoint, 0, len(row.Values)), row.Values
			for _, run := range row.Runs {
				for k, v := range values[:run.Len] {
					floats = append(floats, promql.FPoint{T: m.Grid.At(int(run.First) + k), F: v})
				}
				values = values[run.Len:]
			}
			out[i] = promql.Series{Metric: row.Labels, Floats: floats}
		}
	})
	return out, nil
}

// sort sorts the rows of a result by labels, as results of range queries are. Where the
// query's context ends meanwhile, it gives up and returns the error of that.
func (q *query) sort(rows []plan.Row) error {
	byLabels := func(a, b plan.Row) int { return labels.Compare(a.Labels, b.Labels) }
	if slices.IsSortedFunc(rows, byLabels) {
		return nil
	}
	calls, ended := 0, false
	slices.SortFunc(rows, func(a, b plan.Row) int {
		if calls++; calls%(1<<14) == 0 && q.ctx.Err() != nil {
			ended = true
		}
		if ended {
			return 0 // any order will do
		}
		return byLabels(a, b)
	})
	if !ended {
		return nil
	}
	return plan.Ended(q.ctx)
}

// Close implements promql.Query. The result must not be used any more.
func (q *query) Close() {
	q.closeFetches()
	q.Query.Close()
	q.release()
	q.lease.Release()
}
