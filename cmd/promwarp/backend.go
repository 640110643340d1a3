package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/features"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/tsdbdir"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

// store is an open source and the cache in front of it.
type store struct {
	*refcount.Count
	key    storeKey
	name   string
	cache  *cache.Cache
	remote *forward.Remote // nil when labels are listed here
	follow *follower       // of such a server's settings, or nil
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

// storeOptions are what stores are opened with besides the settings.
type storeOptions struct {
	upstream fetcher      // in place of the sources that the settings name; may be nil
	prev     []*store     // stores to take over from
	memory   *memory.Pool // of the process; nil without a limit
	// changed is called when something that answers depend on has changed about a source;
	// may be nil.
	changed func()
	reg     prometheus.Registerer // for metrics of all stores together
	logger  *slog.Logger
}

// openStore opens the source that k names, or o.upstream. It takes over the directory of
// that of o.prev which has the same.
func openStore(k storeKey, o storeOptions) (*store, error) {
	up, logger := o.upstream, o.logger
	st := &store{key: k, name: cmp.Or(k.name, k.from.String()), reg: prometheus.NewRegistry(), close: func() {}}
	st.Count = refcount.New(func() { st.close() })
	switch {
	case up != nil:
	case k.from.remote != nil:
		c, err := remoteread.NewClient(k.from.remote, remoteread.Options{
			Concurrency:   k.fetch.Concurrency,
			KeepExternal:  k.fetch.ExternalLabels.keep,
			MaxFrameBytes: int64(k.fetch.MaxFrameBytes),
			MaxBytes:      int64(k.fetch.MaxBytes),
			Memory:        o.memory,
			Logger:        logger.With("component", "remote read"),
			Registerer:    st.reg,
		})
		if err != nil {
			return nil, usageError{err}
		}
		up = c
		st.follow = follow(c, k, st.name, o.changed, logger)
		st.close = func() {
			st.follow.Close()
			c.CloseIdle()
		}
		if err := st.follow.probe(c, logger); err != nil {
			st.Release()
			return nil, err
		}
		st.remote = &forward.Remote{Name: st.name, Base: k.from.base, Transport: c.HTTPClient().Transport}
		if k.fetch.ExternalLabels.keep {
			st.remote.Kept = func() labels.Labels { return st.follow.Facts().ExternalLabels }
		}
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
	files, err := openFiles(k, st.follow, o.prev, logger.With("component", "cache"))
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
	st.follow.clears(st.cache.Clear)
	unwatch := o.memory.Watch("labels", st.cache.LabelBytes)
	endReclaim := o.memory.OnShortage(reclaimTiles, st.cache.Reclaim)
	st.OnClose(func() {
		unwatch()
		endReclaim()
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
func openFiles(k storeKey, f *follower, prev []*store, logger *slog.Logger) (*disk.Store, error) {
	if k.cache.Path == "" {
		return nil, nil
	}
	identity, err := k.from.identity()
	if err != nil {
		return nil, err
	}
	labelled, certain := f.identity()
	if !certain {
		logger.Warn("the upstream does not say yet which external labels it adds, so what is cached stays in memory until the next start")
		return nil, nil
	}
	identity += cache.DefaultTile.String() + labelled
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
		Identity: identity,
		Logger:   logger,
	})
	switch {
	case errors.Is(err, syscall.EROFS):
		logger.Warn("cache.path is on a read-only disk, so what is cached stays in memory until the next start", "path", k.cache.Path)
		return nil, nil
	case err != nil:
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
	can  features.Collector
}

// engineSettings are what an engine is made from.
type engineSettings struct {
	querySettings
	decodedBytes, resultsBytes int64
	lookback, interval         time.Duration
	features                   upstream.Features
}

// parser returns a parser of PromQL with the features that are on.
func (e *engineSettings) parser() parser.Parser { return parser.NewParser(e.features.Parser()) }

// shown returns flags with what settings that follow the upstream's came to.
func (e *engineSettings) shown(flags map[string]string) map[string]string {
	flags["query.lookback-delta"] = model.Duration(e.lookback).String()
	flags["query.evaluation-interval"] = model.Duration(e.interval).String()
	flags["enable-feature"] = e.features.String()
	if e.features == 0 {
		flags["enable-feature"] = "" // as Prometheus shows it
	}
	return flags
}

// newEvaluator returns an engine made from limits that may use gpus and takes leases of
// pool. Both may be nil, and stay the caller's.
func newEvaluator(limits engineSettings, gpus *placement.Placer, pool *memory.Pool, logger *slog.Logger) *evaluator {
	reg := prometheus.NewRegistry()
	can := features.NewRegistry()
	opts := promql.EngineOpts{
		Logger:                   logger.With("component", "query engine"),
		Reg:                      reg,
		MaxSamples:               limits.MaxSamples,
		Timeout:                  time.Duration(limits.Timeout),
		ActiveQueryTracker:       tracker{limits.MaxConcurrency},
		LookbackDelta:            limits.lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return limits.interval.Milliseconds() },
		Parser:                   limits.parser(),
		FeatureRegistry:          can,
	}
	limits.features.Engine(&opts)
	e := engine.New(engine.Options{
		Limits: limits.textSettings.limits(), GPUs: gpus, DecodedBytes: limits.decodedBytes, ResultsBytes: limits.resultsBytes, MaxMemory: int64(limits.MaxMemory), Memory: pool, Prometheus: opts,
	})
	unwatch := pool.Watch("decoded", e.DecodedBytes)
	unwatchResults := pool.Watch("results", e.ResultsBytes)
	endReclaim := pool.OnShortage(reclaimDecoded, e.ShrinkDecoded)
	return &evaluator{
		Engine: e,
		from:   limits,
		reg:    reg,
		can:    can,
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
