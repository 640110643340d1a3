package engine

import (
	"context"
	"errors"
	"maps"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// recheck is a query whose answer is held against that of Prometheus's engine once the client has
// it. Until then its selections and its result stay in memory: Prometheus's engine evaluates the
// query over the very selections that it read, so samples that have come since make no difference.
type recheck struct {
	q         *query
	answer    compare.Answer
	ended     bool // the query has an answer to compare
	positions func(ms []*labels.Matcher) (posrange.PositionRange, bool)
	lease     *memory.Lease // of what Prometheus's engine takes
}

// newReference returns the engine that answers what queries are compared with, nil if none are. It
// counts and lists nothing: its queries are nobody's.
func newReference(o Options, cpu *cpuexec.Executor) *Engine {
	if o.Comparer == nil {
		return nil
	}
	o.Prometheus.Reg, o.Prometheus.ActiveQueryTracker, o.Prometheus.FeatureRegistry = nil, nil, nil
	return &Engine{stock: promql.NewEngine(o.Prometheus), opts: Options{Prometheus: o.Prometheus, MaxMemory: o.MaxMemory}, metrics: newMetrics(nil, cpu)}
}

// chooseRecheck decides whether the query is compared.
func (q *query) chooseRecheck() {
	if q.mode == Prometheus || q.explained || !q.e.opts.Comparer.Chosen(q.ctx) {
		return
	}
	q.recheck = &recheck{q: q}
}

// fetch returns what a selector matches that is left to Prometheus's engine, which is kept as
// those of parts are; nil if the storage hands out no selections.
func (r *recheck) fetch(hints *storage.SelectHints, ms []*labels.Matcher) *fetched {
	from, ok := r.q.fetches.querier.(selection.Querier)
	at, found := r.positions(ms)
	if !ok || !found {
		return nil
	}
	got := &fetched{ready: make(chan struct{})}
	r.q.fetches.of[at] = got
	r.q.fetches.fetch(from, []selection.Ask{{Hints: hints, Matchers: ms}}, []*fetched{got})
	return got
}

// answered notes the query's answer, before what forced executors could not take is added.
func (r *recheck) answered(res *promql.Result) {
	if r == nil {
		return
	}
	r.answer, r.ended = compare.Answer{Value: res.Value, Notes: maps.Clone(res.Warnings), Err: res.Err}, true
	if m, ok := res.Value.(*plan.Matrix); ok {
		r.answer.Value = &plan.Matrix{Grid: m.Grid, Rows: m.Rows} // whoever answers may cut its rows
	}
}

// copied notes that the answer's value was copied.
func (r *recheck) copied(v parser.Value) {
	if r != nil {
		r.answer.Value = v
	}
}

// begin has the comparison begin, if there is something to compare and room for it, and reports
// whether it closes the query when it ends.
func (r *recheck) begin() bool {
	q := r.q
	comparer := q.e.opts.Comparer
	if !r.ended || q.fetches == nil || !q.accelerated() {
		return false
	}
	if why := r.unsound(); why != nil {
		comparer.Skip(why)
		return false
	}
	r.lease = q.e.opts.Memory.SpareLease(memory.Evaluation)
	held := q.lease.Bytes()
	return comparer.Begin(func() int64 { return held + r.lease.Bytes() }, func(ctx context.Context) (*compare.Report, error) {
		defer q.close()
		return r.compare(ctx)
	})
}

// accelerated reports whether an executor evaluated a part of the query.
func (q *query) accelerated() (found bool) {
	if q.root != nil {
		q.root.Walk(func(d *plan.Decision) { found = found || d.Executor != plan.OnPrometheus && !d.Idle })
	}
	return found
}

// unsound says why the query's answer does not follow from its samples, or nothing: not all of them
// came, or it is an error of time or memory.
func (r *recheck) unsound() error {
	for _, f := range r.q.fetches.of {
		select {
		case <-f.ready:
		default:
			return compare.ErrFailed
		}
		if f.err != nil {
			return compare.ErrFailed
		}
	}
	return lackOf(r.answer.Err)
}

// lackOf says what an error of a query is a lack of, if it does not follow from the samples.
func lackOf(err error) error {
	var storageErr promql.ErrStorage
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, new(promql.ErrQueryTimeout)):
		return compare.ErrTimeout
	case errors.Is(err, context.Canceled), errors.As(err, new(promql.ErrQueryCanceled)):
		return compare.ErrFailed
	case errors.As(err, new(promql.ErrTooManySamples)):
		return compare.ErrSamples
	case memory.Exhausted(err), errors.As(err, new(*operator.MemoryError)):
		return compare.ErrMemory
	case errors.Is(err, compare.ErrUnread):
		return compare.ErrUnread
	case errors.As(err, &storageErr):
		return compare.ErrFailed
	}
	return nil
}

// controls is how often Prometheus's engine is asked again where it has another answer: the order
// of its maps decides ties and some last bits.
const controls = 10

// compare holds the answer against that of Prometheus's engine.
func (r *recheck) compare(ctx context.Context) (*compare.Report, error) {
	q := r.q
	report := &compare.Report{
		Verdict: compare.Same, Query: q.Query.String(), Start: q.stmt.Start, End: q.stmt.End, Step: q.stmt.Interval, Plan: q.root.Tree,
	}
	tolerance, magnified := q.tolerance()
	theirs, done, err := r.ask(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if report.Difference = compare.Differ(report.Query, r.answer, theirs, tolerance); report.Difference == nil {
		return report, nil
	}
	report.Verdict = compare.Different
	if magnified {
		report.Verdict, report.Why = compare.Undecided, "the query goes on with values whose last bits may differ"
	}
	for range controls {
		again, done, err := r.ask(ctx)
		if err != nil {
			return report, nil // which is a difference without the control
		}
		ours, its := compare.Differ(report.Query, r.answer, again, tolerance), compare.Differ(report.Query, theirs, again, 0)
		done()
		if ours == nil {
			report.Verdict, report.Difference = compare.Same, nil
			return report, nil
		}
		if its != nil {
			report.Verdict, report.Why = compare.Undecided, "Prometheus's engine gives several answers to the query"
		}
	}
	return report, nil
}

// ask has Prometheus's engine evaluate the query over what was fetched for it. Its answer is readable
// until done is called. The error is why there is none.
func (r *recheck) ask(ctx context.Context) (a compare.Answer, done func(), err error) {
	in := &query{e: r.q.e.reference, mode: Prometheus, again: r.q.again, lease: r.lease}
	in.q = over{r.q.fetches, in}
	if err := in.prepare(ctx); err != nil {
		return a, nil, err
	}
	res := in.ExecMatrix(ctx)
	if err := lackOf(res.Err); err != nil {
		in.close()
		return a, nil, err
	}
	return compare.Answer{Value: res.Value, Notes: res.Warnings, Err: res.Err}, in.close, nil
}

// tolerance is how far values of the query may be from Prometheus's, relative, and whether the
// query goes on with values that may be off, so that its own may be off by more.
func (q *query) tolerance() (tolerance float64, magnified bool) {
	parser.Inspect(q.stmt.Expr, func(n parser.Node, above []parser.Node) error {
		call, ok := n.(*parser.Call)
		if !ok {
			return nil
		}
		if w := window.Named(call.Func.Name); w == nil || w.Exactness == plan.BitIdentical || q.exact == plan.Bits {
			return nil
		}
		tolerance = plan.Tolerance
		for _, a := range above {
			switch a.(type) {
			case *parser.ParenExpr, *parser.StepInvariantExpr:
			default:
				magnified = true
			}
		}
		return nil
	})
	return tolerance, magnified
}

// over is the storage of a query that asks what another one asked: what was fetched for that.
type over struct {
	fetches *fetches
	query   *query
}

func (o over) Querier(mint, maxt int64) (storage.Querier, error) {
	return &overQuerier{mint: mint, maxt: maxt, fetched: o.fetches.bySelector(o.query.stmt.Expr)}, nil
}

type overQuerier struct {
	storage.LabelQuerier
	mint, maxt int64
	fetched    func([]*labels.Matcher) *fetched
}

func (*overQuerier) Close() error { return nil }

func (o *overQuerier) Select(_ context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	f := o.fetched(ms)
	if f == nil {
		return storage.ErrSeriesSet(compare.ErrUnread)
	}
	mint, maxt := selection.Bounds(hints, o.mint, o.maxt)
	return selection.LazySeriesSet(mint, maxt, f.get)
}
