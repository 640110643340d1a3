package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// Query is what the engine's queries can besides those of Prometheus's engine.
type Query interface {
	promql.Query
	// ExecMatrix is Exec, but where an executor computed the whole of a range query, the
	// result's value is its *plan.Matrix, with the rows sorted by their labels. Its memory
	// is the query's until that is closed.
	ExecMatrix(ctx context.Context) *promql.Result
	// Executors are those that evaluated something of the query, with "+" between them; empty where
	// nothing was to be evaluated.
	Executors() string
	// Plan says who evaluated what, as a tree; see WithPlan.
	Plan() string
}

var _ Query = (*query)(nil)

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
	exact  plan.Exact
	stats  bool // whether its statistics are asked for
	// explained says that the plan is to be shown.
	explained bool
	attempts  int // that ended with something declined
	// abandoned is why all of the query is left to Prometheus's engine, if it is.
	abandoned string
	// again makes a fresh query of one of Prometheus's engines over a queryable.
	again makeQuery

	mu     sync.Mutex
	cancel context.CancelFunc // of Exec

	ctx      context.Context // of Exec
	fetches  *fetches        // of all attempts; nil before the first asks for a querier
	stmt     *parser.EvalStmt
	excluded map[posrange.PositionRange]string
	merging  map[posrange.PositionRange]bool
	parts    []*planner.Part
	root     *plan.Decision
	reads    []reads
	whole    *plan.Matrix     // the result, where it goes around Prometheus's engine
	computed []*plan.Matrix   // of the parts
	lease    *memory.Lease    // of what the query holds until it is closed
	budget   *operator.Budget // of an attempt
	// tookAhead is what was evaluated while samples were on their way.
	tookAhead []plan.Ahead
	peak      int // samples that Prometheus's engine would have held in parts
}

// makeQuery makes a query of an engine over a queryable. The context is that of making it.
type makeQuery func(context.Context, *promql.Engine, storage.Queryable) (promql.Query, error)

// newQuery makes a query by calling again with the wrapper of q.
func (e *Engine) newQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, again makeQuery) (*query, error) {
	m := modeOf(ctx)
	wq := &query{e: e, q: q, mode: m.mode, strict: m.strict, again: again, excluded: map[posrange.PositionRange]string{}, merging: map[posrange.PositionRange]bool{}}
	wq.exact = cmp.Or(m.exact, e.opts.Exact, plan.WithinTolerance)
	wq.lease = e.opts.Memory.Lease(memory.Evaluation)
	wq.stats = statisticsAsked(ctx) || opts != nil && opts.EnablePerStepStats()
	return wq, wq.prepare(ctx)
}

func (q *query) prepare(ctx context.Context) error {
	q.release()
	stock, err := q.again(ctx, q.e.stock, wrapper{q})
	if err != nil {
		return err
	}
	q.Query = stock
	q.stmt = stock.Statement().(*parser.EvalStmt)
	q.parts, q.root, q.reads = nil, nil, nil
	q.budget, q.peak = nil, 0
	return nil
}

// Exec implements promql.Query.
func (q *query) Exec(ctx context.Context) *promql.Result {
	res := q.ExecMatrix(ctx)
	m, ok := res.Value.(*plan.Matrix)
	if !ok {
		return res
	}
	defer q.release()
	out, err := q.matrix(m)
	if err == nil {
		err = q.keepResult(out)
	}
	if err != nil {
		return &promql.Result{Err: err}
	}
	res.Value = out
	return res
}

// ExecMatrix implements Query. A part that turns out not to be computable once
// its data is seen is excluded and the query run again, and so it is where the
// storage asks for that (see selection.Again).
func (q *query) ExecMatrix(ctx context.Context) *promql.Result {
	ctx, cancel := context.WithTimeout(ctx, q.e.timeout())
	defer cancel()
	q.mu.Lock()
	q.cancel = cancel
	q.mu.Unlock()
	q.ctx = ctx
	if q.e.opts.GPUs != nil {
		defer q.e.opts.GPUs.Serve()()
	}
	defer q.closeFetches()
	for {
		if err := q.beginBudget(ctx); err != nil {
			return q.finish(&promql.Result{Err: err})
		}
		res := q.Query.Exec(ctx)
		q.restore()
		var d *plan.Declined
		var again *selection.Again
		switch {
		case res.Err == nil:
			return q.finish(res)
		case errors.As(res.Err, &again):
			q.closeFetches()
			q.q = again.Queryable
		case errors.As(res.Err, &d):
			if d.Merges && !q.merging[d.At.Range()] {
				q.merging[d.At.Range()] = true
				break
			}
			if _, ok := q.excluded[d.At.Range()]; ok {
				return &promql.Result{Err: fmt.Errorf("declined twice: %w", d)}
			}
			q.exclude(d.At.Range(), d.Reason)
			q.e.metrics.lost.Add(float64(d.Lost))
		default:
			return q.finish(res)
		}
		if q.attempts++; q.attempts >= mostAttempts {
			q.abandoned = reasonAbandoned
		}
		q.Query.Close()
		if err := q.prepare(ctx); err != nil {
			return &promql.Result{Err: err}
		}
	}
}

// mostMerging is the number of expressions found to merge series beyond which all are taken
// to, rather than that each runs the query once more.
const mostMerging = 1

// mostAttempts is how often a query is run with parts on executors. Each part that is declined
// runs it once more; after so many all of it is left to Prometheus's engine.
const mostAttempts = 10

const reasonAbandoned = "executors declined too many parts of the query"

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
	defer func() {
		if q.whole == nil {
			q.release() // what Prometheus's engine made of it is in memory of its own
		}
	}()
	var ee *evalError
	if errors.As(res.Err, &ee) {
		res.Err = ee.err
	}
	q.e.metrics.count(q)
	q.Query.Stats().Samples.UpdatePeak(q.peak)
	if res.Err == nil {
		for _, r := range q.reads {
			r.add(q.Query.Stats().Samples)
		}
		if q.whole != nil {
			if err := q.sort(q.whole.Rows); err != nil {
				return &promql.Result{Err: err}
			}
			res.Value = q.whole
		}
		if err := q.keepResult(res.Value); err != nil {
			return &promql.Result{Err: err}
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
		return &promql.Result{Err: &NotTakenError{Mode: q.mode, Parts: left}}
	}
	for _, l := range left {
		res.Warnings.Add(NotTakenWarning{q.mode, l})
	}
	return res
}

// spoil, if it is set, changes values before they are released, for tests of who looks
// at them later.
var spoil func(*plan.Matrix)

// release gives the memory of the parts' values back, at which nobody may look any more.
func (q *query) release() {
	for _, m := range q.computed {
		if spoil != nil {
			spoil(m)
		}
		m.Release()
	}
	q.computed, q.whole = nil, nil
}

// restore puts the planned parts back in place of their stand-ins.
func (q *query) restore() {
	for _, p := range q.parts {
		*p.Slot = p.Expr
	}
}

// direct reports whether part p is a whole range query, whose result need not
// pass through Prometheus's engine point by point. That engine still runs the
// query, with its timeout, tracker, log and statistics, over an empty stand-in;
// the part is computed when it reads that, and its matrix is the result when it
// has ended.
func (q *query) direct(p *planner.Part) bool {
	return p.Slot == &q.stmt.Expr && p.Outer == 0 && q.stmt.Interval > 0 && !q.e.opts.Prometheus.EnableDelayedNameRemoval
}

// remembers reports whether the results of part p may come from earlier queries, and
// be kept for later ones. An executor that was asked for evaluates all itself, and a
// query whose statistics are asked for must know what Prometheus's engine would hold.
func (q *query) remembers(p *planner.Part) bool {
	return q.e.results != nil && q.mode == Auto && !q.stats && q.direct(p)
}

// claimDirect notes the result m of a whole query and returns what the stand-in
// yields instead: nothing.
func (q *query) claimDirect(m *plan.Matrix) (*plan.Matrix, error) {
	if most := q.e.opts.Prometheus.MaxSamples; most > 0 && m.Points() > int64(most) {
		return nil, &evalError{promql.ErrTooManySamples("query execution")}
	}
	q.whole = m
	q.peak = max(q.peak, int(m.Points()))
	return &plan.Matrix{Grid: m.Grid, Annotations: m.Annotations}, nil
}

// matrix returns m, which is the query's, as Prometheus's engine returns results.
func (q *query) matrix(m *plan.Matrix) (promql.Matrix, error) {
	n := int(m.Points())
	if err := q.budget.Charge(16 * int64(n)); err != nil {
		return nil, err
	}
	out := make(promql.Matrix, len(m.Rows))
	for i := range m.Rows {
		out[i] = seriesOf(&m.Rows[i], m.Grid)
	}
	return out, nil
}

// seriesOf is a row as Prometheus's engine has series.
func seriesOf(row *plan.Row, g plan.Grid) promql.Series {
	floats := make([]promql.FPoint, 0, len(row.Values))
	for t, v := range row.All(g) {
		floats = append(floats, promql.FPoint{T: t, F: v})
	}
	return promql.Series{Metric: row.Labels, Floats: floats}
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

// reads are the samples that a part read, less the points of its stand-in, by
// step. They correct the query's statistics once it has ended: not earlier,
// because a step may read fewer samples than it yields points, and the engine's
// own counters must never go down.
type reads struct {
	part  *planner.Part
	extra []int64
	// excess is by how much the points are more than the samples in the step's
	// windows, as those of absent are; nil where they nowhere are.
	excess []int64
}

// countSamples corrects a query's sample statistics. The engine will count each
// point of a stand-in as one sample, so this adds, for each step, the samples in
// the part's windows less the points of its stand-in, and returns the same of
// the samples read, and what this would take away, for when the query has ended.
// A result that goes around the engine has a stand-in without points.
func countSamples(s *stats.QuerySamples, p *planner.Part, m *plan.Matrix, direct bool) reads {
	points := make([]int64, m.Grid.Steps)
	rows := m.Rows
	if direct {
		rows = nil
	}
	for i := range rows {
		for _, run := range rows[i].Runs {
			for k := run.First; k < run.First+run.Len; k++ {
				points[k]++
			}
		}
	}
	r := reads{part: p, extra: m.NewSamplesAtStep}
	add := func(step, k int) {
		n := m.SamplesAtStep[k] - points[k]
		if n >= 0 {
			s.IncrementSamplesAtStep(step, n)
			return
		}
		for len(r.excess) <= step {
			r.excess = append(r.excess, 0)
		}
		r.excess[step] = -n
	}
	switch {
	case p.InSubquery:
		// The function above the subquery counts the subquery's points itself.
	case p.Outer > 0:
		// Evaluated once and repeated at every step.
		for k := range p.Outer {
			add(k, 0)
		}
	default:
		for k := range points {
			add(k, k)
		}
	}
	for k := range points {
		r.extra[k] -= points[k]
	}
	return r
}

// add puts the corrections into s.
func (r reads) add(s *stats.QuerySamples) {
	for k, n := range r.excess {
		s.IncrementSamplesAtStep(k, -n)
	}
	switch {
	case r.part.InSubquery:
		// Which of the subquery's steps a step of the query needs, the engine
		// alone knows; the total is right where all of them are needed.
		var sum int64
		for _, n := range r.extra {
			sum += n
		}
		s.SamplesRead = max(s.SamplesRead+sum, 0)
	case r.part.Outer > 0:
		s.IncrementSamplesReadAtStep(0, r.extra[0])
	default:
		for k, n := range r.extra {
			s.IncrementSamplesReadAtStep(k, n)
		}
	}
}
