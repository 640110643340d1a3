package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/refcount"
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
	if g.reads, err = openBackend(set, s.cfg.Upstream, stores, g.reg, s.logger); err != nil {
		return nil, err
	}
	if prev != nil && prev.eval.from == set.engine() && prev.eval.Hold() {
		g.eval = prev.eval
	} else {
		g.eval = newEvaluator(set.engine(), s.gpus, s.logger)
	}

	origin, err := set.corsOrigin()
	if err != nil {
		g.Release()
		return nil, usageError{err}
	}
	o := api.Options{
		Engine:        g.eval.Engine,
		Queryable:     g.reads.all,
		Parser:        promqlParser(),
		Remotes:       g.reads.remotes(),
		Config:        g.reads.shownConfig,
		Flags:         set.values(),
		RuntimeInfo:   s.runtimeInfo,
		ListenAddress: s.Addr(),
		Ready:         s.ready,
		CORSOrigin:    origin,
		Pprof:         set.Web.EnablePprof,
		Timeout:       time.Duration(set.Query.Timeout),
		Logger:        s.logger.With("component", "web"),
		Metrics:       s.httpMetrics,
		Registerer:    g.reg,
		Gatherer:      prometheus.GathererFunc(s.gather),
	}
	if set.Web.EnableAdminAPI {
		o.Dropper = g.reads.all
	}
	if s.cfg.Reload != nil {
		o.Reload = s.Reload
	}
	if g.handler, err = api.New(o); err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}
