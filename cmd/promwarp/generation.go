package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/prometheus/config"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/refcount"
)

// generation is what answers requests between two reloads. Each request holds
// the one it came to until it is answered.
type generation struct {
	*refcount.Count
	settings settings
	store    *store
	eval     *evaluator
	handler  http.Handler
	reg      *prometheus.Registry
}

// newGeneration makes a generation from settings. It takes over from prev,
// which may be nil, what did not change: the cache above all.
func (s *server) newGeneration(set settings, prev *generation) (*generation, error) {
	key, err := storeKeyOf(set, s.cfg.Upstream)
	if err != nil {
		return nil, usageError{err}
	}
	g := &generation{settings: set, reg: prometheus.NewRegistry()}
	g.Count = refcount.New(func() {
		g.eval.Release()
		g.store.Release()
	})

	if prev != nil && prev.store.key.same(key) && prev.store.Hold() {
		g.store = prev.store
	} else if g.store, err = openStore(key, s.cfg.Upstream, storeOf(prev), s.logger); err != nil {
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
		Queryable:     g.store.cache,
		Parser:        promqlParser(),
		Remote:        g.store.remote,
		Config:        func() promconfig.Config { return shownConfig(key.from) },
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
		o.Dropper = g.store.cache
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

// storeOf is the store of g, which may be nil.
func storeOf(g *generation) *store {
	if g == nil {
		return nil
	}
	return g.store
}

// shownConfig is what /api/v1/status/config shows: the source, in the form of
// Prometheus's configuration, without secrets.
func shownConfig(from source) promconfig.Config {
	c := promconfig.DefaultConfig
	if from.remote == nil {
		return c
	}
	shown := *from.remote
	if len(shown.Headers) > 0 {
		shown.Headers = map[string]string{}
		for k := range from.remote.Headers {
			shown.Headers[k] = "<secret>"
		}
	}
	c.RemoteReadConfigs = []*promconfig.RemoteReadConfig{&shown}
	return c
}
