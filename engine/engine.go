// Package engine is promwarp's promql.QueryEngine: it plans a query, computes
// the planned subtrees on an executor and hands the rest to Prometheus's own
// engine, in which each computed subtree appears as a selector.
package engine

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
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
	// Exact holds for queries that do not say it themselves; see WithExact.
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
	o.Prometheus.Parser = o.Limits.Parser(o.Prometheus.Parser)
	cpu := cpuexec.New(cpuexec.Options{Workers: o.Workers, DecodedBytes: o.DecodedBytes})
	return &Engine{
		stock: promql.NewEngine(o.Prometheus), opts: o,
		cpu: cpu, results: results.New(o.ResultsBytes, o.Prometheus.Reg),
		metrics: newMetrics(o.Prometheus.Reg, cpu), turns: newTurns(),
	}
}

// Columns are the decoded columns of hot series, for those who read samples besides queries.
func (e *Engine) Columns() *column.Set { return e.cpu.Columns() }

// DecodedBytes is the memory in bytes that decoded columns of hot series take.
func (e *Engine) DecodedBytes() int64 { return e.cpu.DecodedBytes() }

// ShrinkDecoded drops decoded columns of about so many bytes, and returns how many bytes that
// are.
func (e *Engine) ShrinkDecoded(bytes int64) (freed int64) { return e.cpu.ShrinkDecoded(bytes) }

// ResultsBytes is the memory in bytes that remembered results take.
func (e *Engine) ResultsBytes() int64 {
	if e.results == nil {
		return 0
	}
	return e.results.Bytes()
}

// Close releases what the Prometheus engine inside holds.
func (e *Engine) Close() error { return e.stock.Close() }

// timeout bounds a query over all its attempts.
func (e *Engine) timeout() time.Duration {
	if t := e.opts.Prometheus.Timeout; t > 0 {
		return t
	}
	return math.MaxInt64
}

// NewInstantQuery implements promql.QueryEngine.
func (e *Engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	query, err := e.instant(ctx, q, opts, qs, ts)
	if err != nil {
		return nil, err
	}
	return query, nil
}

// NewRangeQuery implements promql.QueryEngine.
func (e *Engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	query, err := e.ranged(ctx, q, opts, qs, start, end, interval)
	if err != nil {
		return nil, err
	}
	return query, nil
}

func (e *Engine) instant(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (*query, error) {
	return e.newQuery(ctx, q, opts, func(ctx context.Context, stock *promql.Engine, q storage.Queryable) (promql.Query, error) {
		return stock.NewInstantQuery(ctx, q, opts, qs, ts)
	})
}

func (e *Engine) ranged(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (*query, error) {
	return e.newQuery(ctx, q, opts, func(ctx context.Context, stock *promql.Engine, q storage.Queryable) (promql.Query, error) {
		return stock.NewRangeQuery(ctx, q, opts, qs, start, end, interval)
	})
}

// Explain plans the query, runs it when analyze is set, and says what was
// chosen for each part and why. An interval of 0 means an instant query at
// start.
func (e *Engine) Explain(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration, analyze bool) (*plan.Explanation, error) {
	var query *query
	var err error
	if interval == 0 {
		end = start
		query, err = e.instant(ctx, q, opts, qs, start)
	} else {
		query, err = e.ranged(ctx, q, opts, qs, start, end, interval)
	}
	if err != nil {
		return nil, err
	}
	defer query.Close()
	query.explained = true
	x := &plan.Explanation{
		Query: qs, Executor: string(query.mode), Exact: query.exact, Analyzed: analyze,
		Start: start.UnixMilli(), End: end.UnixMilli(), Interval: interval.Milliseconds(),
	}
	if analyze {
		began := time.Now()
		if res := query.ExecMatrix(ctx); res.Err != nil {
			return nil, res.Err
		}
		x.Total = time.Since(began).Microseconds()
	}
	if query.root == nil {
		if err := query.foresee(ctx); err != nil {
			return nil, err
		}
	}
	x.Root, x.Ahead = query.root, query.tookAhead
	if function, _ := compare.Inexact(query.stmt.Expr); function != "" && query.exact != plan.Bits {
		x.Tolerance = plan.Tolerance
	}
	if query.mode == Prometheus {
		x.Root.Walk(func(d *plan.Decision) {
			d.Executor, d.Reason = plan.OnPrometheus, "the request asked for Prometheus's engine"
		})
	}
	return x, nil
}
