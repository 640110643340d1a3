package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/remoteread/upstream"
	"github.com/promwarp/promwarp/resample"
)

// generation is what answers requests between two reloads. Each request holds
// the one it came to until it is answered.
type generation struct {
	*refcount.Count
	settings settings
	reads    *backend
	eval     *evaluator
	handler  http.Handler
	reg      *prometheus.Registry
}

// newGeneration makes a generation from settings. It takes over from prev,
// which may be nil, what did not change: the caches above all.
func (s *server) newGeneration(set settings, prev *generation) (*generation, error) {
	g := &generation{settings: set, reg: prometheus.NewRegistry()}
	g.Count = refcount.New(func() {
		g.eval.Release()
		g.reads.Release()
	})
	var stores []*store
	if prev != nil {
		stores = prev.reads.stores
	}
	var err error
	if g.reads, err = openBackend(set, storeOptions{
		upstream: s.cfg.Upstream, prev: stores, memory: s.memory, changed: s.upstreamChanged, reg: g.reg, logger: s.logger,
	}); err != nil {
		return nil, err
	}
	from := set.engine(g.reads.facts())
	limitMemory(s.memory, set.Memory.Limit)
	g.reads.startTimestamps(from.features.Has(upstream.UseStartTimestamps))
	if prev != nil && prev.eval.from == from && prev.eval.Hold() {
		g.eval = prev.eval
	} else {
		g.eval = newEvaluator(from, s.gpus, s.memory, s.logger)
	}

	origin, err := set.Web.corsOrigin()
	if err != nil {
		g.Release()
		return nil, usageError{err}
	}
	pages, err := set.Web.pagesURL()
	if err != nil {
		g.Release()
		return nil, usageError{err}
	}
	o := api.Options{
		Engine: g.eval.Engine,
		Resample: resample.New(resample.Options{
			MaxSamples: from.MaxSamples, MaxMemory: int64(from.MaxMemory), Memory: s.memory, Turn: g.eval.Turn,
		}),
		Queryable: g.reads.all,
		Parser:    from.parser(),
		Limits:    from.textSettings.limits(),
		Known:     g.reads.known,
		Remotes:   g.reads.remotes(),
		Config: func() promconfig.Config {
			c := g.reads.shownConfig()
			c.GlobalConfig.EvaluationInterval = model.Duration(from.interval)
			return c
		},
		ExternalLabels: g.reads.externalLabels,
		Flags:          from.shown(set.values()),
		RuntimeInfo:    s.runtimeInfo,
		ListenAddress:  s.Addr(),
		Features:       g.eval.can.Get,
		LookbackDelta:  from.lookback,
		PagesURL:       pages,
		Ready:          s.ready,
		CORSOrigin:     origin,
		Timeout:        time.Duration(set.Query.Timeout),
		Queue:          s.queues.queries,
		ReadQueue:      s.queues.reads,
		ListQueue:      s.queues.lists,
		TenantHeader:   set.Query.TenantHeader,
		MaxListBytes:   min(int64(set.Upstream.MaxBytes), api.DefaultMaxListBytes),
		Logger:         s.logger.With("component", "web"),
		Metrics:        s.httpMetrics,
		Memory:         s.memory,
		Registerer:     g.reg,
		Gatherer:       prometheus.GathererFunc(s.gather),
	}
	set.Storage.apply(&o)
	set.Web.apply(&o)
	if set.Web.EnableAdminAPI {
		o.Dropper = g.reads.all
	}
	o.Lifecycle = set.Web.EnableLifecycle
	if s.cfg.Reload != nil {
		o.Reload = s.Reload
	}
	if g.handler, err = api.New(o); err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}
