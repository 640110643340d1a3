package backend

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/features"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/gpuexec/device"
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

// ActiveFile has the queries that run in a file that survives a crash, which is Prometheus's
// queries.active. It is the process's until that ends: queries may run to the last. A nil
// ActiveFile has none.
type ActiveFile struct {
	file    *promql.ActiveQueryTracker
	slots   int64
	running atomic.Int64
}

// activeSlots is how many queries a file has room for; of more at once, the others are left out.
const activeSlots = 256

// OpenActiveFile makes the file in a directory. The log says which queries had not ended when the
// process ended that had it before.
func OpenActiveFile(dir string, logger *slog.Logger) (*ActiveFile, error) {
	file, err := promql.NewActiveQueryTracker(dir, activeSlots, logger)
	if err != nil {
		return nil, err
	}
	return &ActiveFile{file: file, slots: activeSlots}, nil
}

// notListed stands for the slot of a query that is not in the file.
const notListed = -1

// tracker is a promql.QueryTracker that says how many queries run at a time, which the queue at the
// door sees to, and has them in a file if there is one.
type tracker struct {
	maxConcurrent int
	active        *ActiveFile
}

// GetMaxConcurrent implements promql.QueryTracker.
func (t tracker) GetMaxConcurrent() int { return t.maxConcurrent }

// Insert implements promql.QueryTracker. As from Prometheus's tracker, the error is the context's.
// It never waits.
func (t tracker) Insert(ctx context.Context, query string) (int, error) {
	if err := ctx.Err(); err != nil || t.active == nil {
		return notListed, err
	}
	if t.active.running.Add(1) > t.active.slots {
		t.active.running.Add(-1)
		return notListed, nil
	}
	return t.active.file.Insert(context.Background(), query)
}

// Delete implements promql.QueryTracker.
func (t tracker) Delete(slot int) {
	if slot == notListed {
		return
	}
	t.active.file.Delete(slot)
	t.active.running.Add(-1)
}

// Close implements promql.QueryTracker.
func (tracker) Close() error { return nil }

var _ promql.QueryTracker = tracker{}

// OpenGPUs opens the GPUs that s asks for; nil where it asks for none.
func OpenGPUs(s config.GPUSettings, logger *slog.Logger, reg prometheus.Registerer) (*placement.Placer, error) {
	if s.Mode == config.GPUOff {
		return nil, nil
	}
	devices, err := s.Ordinals()
	if err != nil {
		return nil, config.Usage(err)
	}
	gpus, err := placement.Open(placement.Options{
		Options: device.Options{
			Require: s.Mode == config.GPURequire, Devices: devices, MemoryFraction: float64(s.MemoryFraction), MemoryBytes: int64(s.MemoryBytes),
			Library: s.Library, Logger: logger.With("component", "gpu"), Registerer: reg,
		},
		ConstantsFile: s.Constants,
	})
	if err != nil {
		return nil, fmt.Errorf("no GPU, which --gpu=require asks for: %w", err)
	}
	return gpus, nil
}
