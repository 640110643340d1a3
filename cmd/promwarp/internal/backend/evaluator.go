package backend

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/features"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/planner/placement"
)

// Evaluator is an engine with its limits.
type Evaluator struct {
	*refcount.Count
	*engine.Engine
	From     config.EngineSettings
	Reg      *prometheus.Registry
	Features features.Collector
}

// NewEvaluator returns an engine made from limits that may use gpus, takes leases of pool, and notes
// in active which queries run. Each of them may be nil, and stays the caller's.
func NewEvaluator(limits config.EngineSettings, gpus *placement.Placer, pool *memory.Pool, active *ActiveFile, logger *slog.Logger) *Evaluator {
	reg := prometheus.NewRegistry()
	can := features.NewRegistry()
	opts := promql.EngineOpts{
		Logger:                   logger.With("component", "query engine"),
		Reg:                      reg,
		MaxSamples:               limits.MaxSamples,
		Timeout:                  time.Duration(limits.Timeout),
		ActiveQueryTracker:       tracker{limits.MaxConcurrency, active},
		LookbackDelta:            limits.Lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return limits.Interval.Milliseconds() },
		Parser:                   limits.Parser(),
		FeatureRegistry:          can,
	}
	limits.Features.Engine(&opts)
	e := engine.New(engine.Options{
		Limits: limits.Limits(), GPUs: gpus, DecodedBytes: limits.DecodedBytes, ResultsBytes: limits.ResultsBytes, MaxMemory: int64(limits.MaxMemory), Memory: pool, Exact: limits.Exact, Prometheus: opts,
	})
	unwatch := pool.Watch("decoded", e.DecodedBytes)
	unwatchResults := pool.Watch("results", e.ResultsBytes)
	endReclaim := pool.OnShortage(reclaimDecoded, e.ShrinkDecoded)
	return &Evaluator{
		Engine:   e,
		From:     limits,
		Reg:      reg,
		Features: can,
		Count: refcount.New(func() {
			unwatch()
			unwatchResults()
			endReclaim()
			if err := e.Close(); err != nil {
				logger.Warn("closing the engine failed", "err", err)
			}
		}),
	}
}
