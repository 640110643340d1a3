// Package engine is promwarp's promql.QueryEngine.
//
// Prometheus's engine parses and preprocesses a query. The planner compiles the whole tree to a plan,
// or says why not. What the plan reads is fetched, and executors compute the result. A query without
// a plan, or whose data turn out to be none for executors, Prometheus's engine evaluates, over the
// same samples. Statistics, warnings and errors are the same with either.
//
// A Request says all of a query. Start with query.run.
package engine

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/semaphore"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/planner/placement"
)

// Options configure an Engine.
type Options struct {
	// Prometheus are the options of the Prometheus engine inside. Its timeout,
	// sample limit, tracker, lookback and registry apply to promwarp too.
	Prometheus promql.EngineOpts
	// Workers is the number of goroutines that evaluate one query; 0 means one
	// a core.
	Workers int
	// DecodedBytes is the most memory for decoded columns of hot series; see
	// cpuexec.Options.
	DecodedBytes int64
	// ResultsBytes is the most memory in which results of aggregations are remembered
	// for range queries that ask for them again; 0 means that none are.
	ResultsBytes int64
	// MaxMemory bounds the memory in bytes that one query takes for its result
	// and for what executors make on the way to it; 0 means no bound.
	MaxMemory int64
	// Memory is the process's memory, of which queries take leases until they are
	// closed; nil means that there is no limit.
	Memory *memory.Pool
	// Exact holds for queries that do not say it themselves; see Request.Exact.
	Exact plan.Exact
	// Limits bound the text of queries; the zero value has the defaults.
	Limits planner.Limits
	// GPUs evaluate what they are expected to be faster at; nil means none are
	// used. They stay the caller's.
	GPUs *placement.Placer
}

// Engine implements promql.QueryEngine. It is safe for concurrent use.
type Engine struct {
	stock   *promql.Engine
	opts    Options
	cpu     *cpuexec.Executor
	results *results.Memory // nil if nothing is remembered
	metrics *metrics
	life    *life
	// evaluating and fetching are how long these take, in the units of work.
	evaluating, fetching *pace

	turns *semaphore.Weighted // of evaluations of many samples
}

// New returns an engine.
func New(o Options) *Engine {
	if o.Prometheus.NoStepSubqueryIntervalFn == nil {
		o.Prometheus.NoStepSubqueryIntervalFn = func(int64) int64 { return time.Minute.Milliseconds() }
	}
	if o.Prometheus.Parser == nil {
		o.Prometheus.Parser = parser.NewParser(parser.Options{})
	}
	if o.Prometheus.Timeout <= 0 {
		o.Prometheus.Timeout = math.MaxInt64
	}
	o.Prometheus.Parser = o.Limits.Parser(o.Prometheus.Parser)
	cores := float64(runtime.GOMAXPROCS(0))
	cpu := cpuexec.New(cpuexec.Options{Workers: o.Workers, DecodedBytes: o.DecodedBytes})
	stock := o.Prometheus
	stock.Reg, stock.ActiveQueryTracker = nil, nil // life sees to these
	return &Engine{
		stock: promql.NewEngine(stock), opts: o,
		cpu: cpu, results: results.New(o.ResultsBytes, o.Prometheus.Reg),
		// per selector, series, sample that is decoded, one that was, window of a series; per fetch, series, byte
		evaluating: newPace(200, 1.5/cores, 0.02/cores, 0.001/cores, 0.004/cores), fetching: newPace(200, 15, 0.01),
		metrics: newMetrics(o.Prometheus.Reg, cpu), life: newLife(o.Prometheus.Reg, o.Prometheus.ActiveQueryTracker), turns: semaphore.NewWeighted(int64(max(2, runtime.GOMAXPROCS(0)/2))),
	}
}

// Columns are the decoded columns of hot series, for those who read samples besides queries.
func (e *Engine) Columns() *column.Set { return e.cpu.Columns() }

// Results are the results of aggregations that are remembered; nil if none are.
func (e *Engine) Results() *results.Memory { return e.results }

// Close releases what the Prometheus engine inside holds.
func (e *Engine) Close() error { return e.stock.Close() }

// NewInstantQuery implements promql.QueryEngine.
func (e *Engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	return e.NewQuery(ctx, Request{Storage: q, Options: opts, Query: qs, Start: ts})
}

// NewRangeQuery implements promql.QueryEngine.
func (e *Engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	return e.NewQuery(ctx, Request{Storage: q, Options: opts, Query: qs, Start: start, End: end, Step: interval})
}

// Explain plans the query of a request, runs it when analyze is set, and says who evaluates it and why.
func (e *Engine) Explain(ctx context.Context, r Request, analyze bool) (*plan.Explanation, error) {
	r.Plan = true
	if r.Step == 0 {
		r.End = r.Start
	}
	made, err := e.NewQuery(ctx, r)
	if err != nil {
		return nil, err
	}
	query := made.(*query)
	defer query.Close()
	if analyze {
		if res := query.ExecMatrix(ctx); res.Err != nil {
			return nil, res.Err
		}
	}
	return query.Explanation(ctx)
}

// Explanation says who evaluates the query and why, and if it was run what that took.
func (query *query) Explanation(ctx context.Context) (*plan.Explanation, error) {
	r := query.request
	x := &plan.Explanation{
		Query: r.Query, Executor: string(r.Mode), Exact: r.Exact, Analyzed: query.ran > 0,
		Start: r.Start.UnixMilli(), End: r.End.UnixMilli(), Interval: r.Step.Milliseconds(),
		Total: query.ran.Microseconds(), Waited: query.queued.Microseconds(), Fetched: query.waited.Microseconds(),
		Evaluated: (query.ran - query.queued - query.waited).Microseconds(),
	}
	if query.plan == nil {
		if _, err := query.foresee(ctx); err != nil {
			return nil, err
		}
	}
	x.Root, x.Ahead = query.plan.Root, query.took
	if function, _ := compare.Inexact(query.stmt.Expr); function != "" && r.Exact != plan.Bits {
		x.Tolerance = plan.Tolerance
	}
	if r.Mode == Auto && query.e.opts.GPUs != nil {
		x.GPU = query.e.opts.GPUs.Report().Reason // once, and not at every leaf
		x.Root.Walk(func(d *plan.Decision) {
			if d.Reason == x.GPU {
				d.Reason = ""
			}
		})
	}
	if r.Mode == Prometheus {
		x.Root.Walk(func(d *plan.Decision) {
			d.Executor, d.Reason = plan.OnPrometheus, "the request asked for Prometheus's engine"
		})
	}
	return x, nil
}

// NotTakenError is the error of a strict request whose forced executor could
// not evaluate all of the query.
type NotTakenError struct {
	Mode  Mode
	Parts []string // expression and reason
}

func (e *NotTakenError) Error() string {
	thing := "an executor"
	if e.Mode == GPU {
		thing = "a GPU"
	}
	return fmt.Sprintf("executor=%s with strict=true: parts of the query are not on %s: %s", e.Mode, thing, strings.Join(e.Parts, "; "))
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
