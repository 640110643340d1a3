package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/fleet"
	"github.com/promwarp/promwarp/refcount"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/tsdbdir"
)

// store is an open source and the cache in front of it.
type store struct {
	*refcount.Count
	key    storeKey
	name   string
	cache  *cache.Cache
	remote *api.Remote // nil when labels are listed here
	reg    *prometheus.Registry
	close  func() // of the source
}

// storeKey is what a store depends on: when it changes there must be a new one.
type storeKey struct {
	name  string // the source's among several; empty where there is one
	from  source
	fetch upstreamSettings // without the URL, which is in from
	cache cacheSettings
}

func (k storeKey) same(l storeKey) bool {
	return k.name == l.name && k.from.same(l.from) && k.fetch == l.fetch && k.cache == l.cache
}

// openStore opens the source that k names, or up if that is given. It takes over
// the directory of that of prev which has the same.
func openStore(k storeKey, up upstream, prev []*store, logger *slog.Logger) (*store, error) {
	st := &store{key: k, name: cmp.Or(k.name, k.from.String()), reg: prometheus.NewRegistry(), close: func() {}}
	st.Count = refcount.New(func() { st.close() })
	switch {
	case up != nil:
	case k.from.remote != nil:
		c, err := remoteread.NewClient(k.from.remote, remoteread.Options{
			Concurrency:   k.fetch.Concurrency,
			MaxFrameBytes: int64(k.fetch.MaxFrameBytes),
			MaxBytes:      int64(k.fetch.MaxBytes),
			Logger:        logger.With("component", "remote read"),
			Registerer:    st.reg,
		})
		if err != nil {
			return nil, usageError{err}
		}
		up = c
		st.remote = &api.Remote{Name: st.name, Base: k.from.base, Transport: c.HTTPClient().Transport}
		st.close = c.CloseIdle
	default:
		d, err := tsdbdir.Open(k.from.dir, logger.With("component", "data directory"))
		if err != nil {
			return nil, usageError{err}
		}
		up = d
		st.close = func() { _ = d.Close() }
	}
	fresh := time.Duration(k.cache.Fresh)
	if fresh == 0 {
		fresh = -1 // none, where the cache takes 0 for its default
	}
	files, err := openFiles(k, prev, logger.With("component", "cache"))
	if err != nil {
		st.Release()
		return nil, err
	}
	reg := prometheus.Registerer(st.reg)
	if k.name != "" {
		reg = prometheus.WrapRegistererWith(prometheus.Labels{"upstream": k.name}, reg)
	}
	st.cache = cache.New(up, cache.Options{
		Disk:       files,
		HostBytes:  int64(k.cache.HostBytes - k.cache.decoded()),
		Fresh:      fresh,
		Recheck:    time.Duration(k.cache.Recheck),
		OutOfOrder: time.Duration(k.cache.OutOfOrderWindow),
		MaxAge:     time.Duration(k.cache.MaxAge),
		Retention:  time.Duration(k.fetch.Retention),
		Prefetch: cache.Prefetch{
			Requests: float64(k.cache.PrefetchRequests), Bytes: int64(k.cache.PrefetchBytes), Concurrency: k.cache.PrefetchConcurrency,
		},
		Logger:     logger.With("component", "cache"),
		Registerer: reg,
	})
	st.OnClose(func() {
		if err := st.cache.Close(); err != nil {
			logger.Warn("closing cache.path failed", "err", err)
		}
		st.close()
	})
	return st, nil
}

// openFiles opens cache.path, if there is one. If one of prev has the same, that
// writes what it still has to write, and goes on in memory alone for the requests
// that it has to answer.
func openFiles(k storeKey, prev []*store, logger *slog.Logger) (*disk.Store, error) {
	if k.cache.Path == "" {
		return nil, nil
	}
	identity, err := k.from.identity()
	if err != nil {
		return nil, err
	}
	for _, p := range prev {
		if p.key.cache.Path != k.cache.Path {
			continue
		}
		if err := p.cache.Close(); err != nil {
			return nil, fmt.Errorf("cache.path %s: %w", k.cache.Path, err)
		}
	}
	files, err := disk.Open(disk.Options{
		Path:     k.cache.Path,
		Limit:    int64(k.cache.DiskBytes),
		Identity: identity + cache.DefaultTile.String(),
		Logger:   logger,
	})
	if err != nil {
		return nil, usageError{fmt.Errorf("cache.path %s: %w", k.cache.Path, err)}
	}
	return files, nil
}

// evaluator is an engine with its limits.
type evaluator struct {
	*refcount.Count
	*engine.Engine
	from engineSettings
	reg  *prometheus.Registry
}

// engineSettings are what an engine is made from.
type engineSettings struct {
	querySettings
	decodedBytes, resultsBytes int64
}

// promqlParser parses as Prometheus does by default.
func promqlParser() parser.Parser {
	return parser.NewParser(parser.Options{ExperimentalDurationExpr: true})
}

// newEvaluator returns an engine made from limits that may use gpus, which may be
// nil and stay the caller's.
func newEvaluator(limits engineSettings, gpus *fleet.Fleet, logger *slog.Logger) *evaluator {
	reg := prometheus.NewRegistry()
	e := engine.New(engine.Options{GPUs: gpus, DecodedBytes: limits.decodedBytes, ResultsBytes: limits.resultsBytes, MaxMemory: int64(limits.MaxMemory), Prometheus: promql.EngineOpts{
		Logger:               logger.With("component", "query engine"),
		Reg:                  reg,
		MaxSamples:           limits.MaxSamples,
		Timeout:              time.Duration(limits.Timeout),
		ActiveQueryTracker:   newTracker(limits.MaxConcurrency),
		LookbackDelta:        time.Duration(limits.LookbackDelta),
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
		EnablePerStepStats:   true,
		// Prometheus takes its global evaluation interval, 1m by default, which
		// remote read does not tell.
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		Parser:                   promqlParser(),
	}})
	return &evaluator{
		Engine: e,
		from:   limits,
		reg:    reg,
		Count: refcount.New(func() {
			if err := e.Close(); err != nil {
				logger.Warn("closing the engine failed", "err", err)
			}
		}),
	}
}
