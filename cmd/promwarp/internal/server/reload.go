package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/api/leaf"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/canary"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/remoteread/reduce"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/remoteread/upstream"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// Reload reads the settings again and answers new requests by them. Requests
// under way finish by the old ones. If anything is wrong nothing changes.
func (s *Server) Reload() (err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	defer func() {
		s.loaded(err == nil)
		if err != nil {
			s.logger.Error("the configuration was not reloaded; the running one stays as it is", "err", err)
		}
	}()
	next, err := s.cfg.Reload()
	if err != nil {
		return err
	}
	next.Divide()
	if err := s.validate(next); err != nil {
		return err
	}

	old := s.acquire()
	if old == nil {
		return fmt.Errorf("the server is shutting down")
	}
	defer old.Release()
	g, err := s.newGeneration(next, old)
	if err != nil {
		return err
	}
	if err := s.traces.Apply(next.Tracing); err != nil {
		g.Release()
		return config.Usage(err)
	}
	if !s.replace(old, g) {
		return fmt.Errorf("the server is shutting down")
	}
	s.queues.set(next)
	was, is := s.cfg.Settings.Values(), next.Values()
	for _, flag := range config.NeedRestart() {
		if was[flag] != is[flag] {
			s.logger.Warn("a setting that changed takes effect only after a restart", "setting", flag, "running", was[flag], "configured", is[flag])
		}
	}
	s.logger.Info("the configuration was reloaded",
		"reads_from", g.reads, "cache_kept", slices.Equal(g.reads.Stores, old.reads.Stores), "limits_changed", g.eval != old.eval)
	return nil
}

// replace answers new requests with g instead of old, unless the server is shutting down.
func (s *Server) replace(old, g *generation) bool {
	if !s.current.CompareAndSwap(old, g) {
		g.Release()
		return false
	}
	old.Release() // the server's own hold
	s.canary.Set(g.compared())
	return true
}

// loaded notes whether the configuration could be loaded.
func (s *Server) loaded(ok bool) {
	s.reloadInfo.Lock()
	defer s.reloadInfo.Unlock()
	s.reloadInfo.ok = ok
	if !ok {
		s.reloadOK.Set(0)
		return
	}
	s.reloadInfo.last = time.Now()
	s.reloadOK.Set(1)
	s.reloadTime.SetToCurrentTime()
}

// upstreamChanged answers new requests as the upstreams are set by now.
func (s *Server) upstreamChanged() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	old := s.acquire()
	if old == nil {
		return
	}
	defer old.Release()
	from := old.settings.Engine(old.reads.Facts())
	if old.eval.From == from {
		return
	}
	g, err := s.newGeneration(old.settings, old)
	if err != nil {
		s.logger.Error("the upstream's settings have changed and cannot be followed", "err", err)
		return
	}
	if !s.replace(old, g) {
		return
	}
	s.logger.Info("following the upstream's settings", "evaluation_interval", from.Interval, "lookback_delta", from.Lookback, "features", from.Features)
}

// generation is what answers requests between two reloads. Each request holds
// the one it came to until it is answered.
type generation struct {
	*refcount.Count
	settings config.Settings
	reads    *backend.Backend
	eval     *backend.Evaluator
	handler  http.Handler
	leaf     http.Handler // for Thanos's Queriers
	reg      *prometheus.Registry
}

// newGeneration makes a generation from settings. It takes over from prev,
// which may be nil, what did not change: the caches above all.
func (s *Server) newGeneration(set config.Settings, prev *generation) (*generation, error) {
	g := &generation{settings: set, reg: prometheus.NewRegistry()}
	closeAll := func() {
		g.eval.Release()
		g.reads.Release()
	}
	g.Count = refcount.New(closeAll)
	var stores []*backend.Store
	if prev != nil {
		stores = prev.reads.Stores
	}
	var err error
	if g.reads, err = backend.Open(set, backend.Options{
		Upstream: s.cfg.Upstream, Prev: stores, Memory: s.memory, Changed: s.upstreamChanged, Reg: g.reg, Logger: s.logger,
	}); err != nil {
		return nil, err
	}
	from := set.Engine(g.reads.Facts())
	footprint.Limit(s.memory, int64(set.Memory.Limit))
	g.reads.StartTimestamps(from.Features.Has(upstream.UseStartTimestamps))
	// cache.path belongs to this process now. The file there is opened once: queries keep it to their ends.
	if set.Cache.Path != "" && s.active == nil {
		if s.active, err = backend.OpenActiveFile(set.Cache.Path, s.logger.With("component", "active queries")); err != nil {
			s.logger.Warn("the queries that run are in no file, so a crash will not say which they were", "err", err)
		}
	}
	if prev != nil && prev.eval.From == from && prev.eval.Hold() {
		g.eval = prev.eval
	} else {
		g.eval = backend.NewEvaluator(from, s.gpus, s.memory, s.active, s.logger)
	}

	origin, _ := set.Web.OriginRegexp() // ValidateLimits has checked these three
	library, _ := set.Library()
	pages, _ := set.Web.PagesURL()
	var gpus offload.Accelerator
	if s.gpus != nil {
		gpus = s.gpus
	}
	remote := set.Storage.Remote
	o := api.Options{
		Engine: g.eval.Engine,
		Resample: resample.New(resample.Options{
			MaxSamples: from.MaxSamples, MaxMemory: int64(from.MaxMemory), Memory: s.memory, Columns: g.eval.Engine.Columns(), Turn: g.eval.Turn, Accelerator: gpus,
		}),
		Aggregates: library, DefineAggregates: set.Query.CustomAggregates,
		Queryable: selection.Storage{Source: g.reads.All},
		Parser:    from.Parser(),
		Limits:    from.Limits(),
		Known:     g.reads.Known,
		Remotes:   g.reads.Remotes(),
		Config: func() promconfig.Config {
			c := g.reads.ShownConfig()
			c.GlobalConfig.EvaluationInterval = model.Duration(from.Interval)
			return c
		},
		ExternalLabels: g.reads.ExternalLabels,
		Flags:          from.Shown(set.Values()),
		RuntimeInfo:    s.runtimeInfo,
		Features:       g.eval.Features.Get,
		LookbackDelta:  from.Lookback,
		PagesURL:       pages,
		Examples:       s.cfg.Examples,
		GPUs:           s.gpus.Report,
		Caches:         func(selectors int) []cache.Contents { return g.reads.Contents(selectors, s.gpus.ResidentShare) },
		CORSOrigin:     origin,
		Timeout:        time.Duration(set.Query.Timeout),
		Queue:          s.queues.queries,
		TooLarge:       s.queues.tooLarge,
		Read: serve.Options{
			Queue: s.queues.reads, SampleLimit: remote.ReadSampleLimit, FrameBytes: int(remote.ReadMaxBytesInFrame), MaxQueries: remote.ReadMaxQueries,
		},
		Pprof:        set.Web.EnablePprof,
		MaxBodyBytes: int64(set.Web.MaxBodyBytes),
		BodyTimeout:  time.Duration(set.Web.ReadTimeout),
		WriteTimeout: time.Duration(set.Web.WriteTimeout),
		ListQueue:    s.queues.lists,
		TenantHeader: set.Query.TenantHeader,
		MaxListBytes: min(int64(set.Upstream.MaxBytes), api.MaxListBytes),
		Logger:       s.logger.With("component", "web"),
		LogQueries:   set.Log.Queries,
		SlowQueries:  time.Duration(set.Log.SlowQueries),
		Metrics:      s.httpMetrics,
		Memory:       s.memory,
		Registerer:   g.reg,
		Gatherer:     prometheus.GathererFunc(s.gather),
	}
	o.Ready = func() ([]string, error) {
		if err := s.ready(); err != nil {
			return nil, err
		}
		return g.reads.Ready(set.Web.ReadyNeedsUpstream)
	}
	reducer := reduce.New(reduce.Options{
		Lookback: time.Duration(set.Readers.Lookback), Engine: g.eval.Engine, Columns: g.eval.Engine.Columns(), Memory: s.memory, Registerer: g.reg,
	})
	o.ReadReductions = map[string]serve.Reduce{"thin": reducer.Thin, "aggregate": reducer.Aggregate}
	if set.Web.EnableAdminAPI {
		o.Dropper, o.Cancel = g.reads.All, true
	}
	if set.Compare.Fraction > 0 {
		o.Answered = s.canary.Answered
	}
	o.Lifecycle = set.Web.EnableLifecycle
	if s.cfg.Reload != nil {
		o.Reload = s.Reload
	}
	doors := api.New(o)
	g.handler = doors
	if set.GRPC.ListenAddress != "" {
		var stop func()
		g.leaf, stop = doors.Leaf(g.reads.Sources, g)
		g.OnClose(func() {
			stop()
			closeAll()
		})
		for _, wrong := range leaf.Unlike(g.reads.Sources()) {
			s.logger.Warn(wrong)
		}
	}
	return g, nil
}

// compared says which queries of the generation are compared, and with what.
func (g *generation) compared() canary.Settings {
	s := canary.Settings{
		Fraction: float64(g.settings.Compare.Fraction), Timeout: time.Duration(g.settings.Compare.Timeout), Exact: g.eval.From.Exact,
	}
	if remotes := g.reads.Remotes(); len(g.reads.Stores) == 1 && len(remotes) == 1 && remotes[0].Base != nil {
		s.Upstream = client.Of(remotes[0].Base, remotes[0].Transport)
		s.Upstream.Longest = canary.LongestAnswer
	}
	return s
}

// acquire returns the present generation, held for the caller; nil once the
// server is closed.
func (s *Server) acquire() *generation {
	for {
		g := s.current.Load()
		if g == nil || g.Hold() {
			return g
		}
		// Replaced since; the next one is there already.
	}
}

// gather gathers what outlives a reload and what the present generation has.
func (s *Server) gather() ([]*dto.MetricFamily, error) {
	all := prometheus.Gatherers{s.base}
	if g := s.acquire(); g != nil {
		defer g.Release()
		all = append(all, g.reg, g.eval.Reg)
		for _, st := range g.reads.Stores {
			all = append(all, st.Reg)
		}
	}
	return all.Gather()
}

// ready says why the server is not ready.
func (s *Server) ready() error {
	if why := s.state.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

// runtimeInfo is what /api/v1/status/runtimeinfo says.
func (s *Server) runtimeInfo() api.RuntimeInfo {
	i := api.NewRuntimeInfo(s.start)
	s.reloadInfo.Lock()
	defer s.reloadInfo.Unlock()
	i.ReloadConfigSuccess, i.LastConfigTime = s.reloadInfo.ok, s.reloadInfo.last.UTC()
	return i
}

// validate checks settings, but for the source where one is given.
func (s *Server) validate(set config.Settings) error {
	if s.cfg.Upstream != nil {
		return set.ValidateLimits()
	}
	return set.Validate()
}

// queues are what requests wait in. They outlive a reload.
type queues struct {
	queries, reads, lists *queue.Queue
	tooLarge              *memory.TooLarge
}

// set gives the queues the limits of s.
func (q queues) set(s config.Settings) {
	q.queries.Set(s.Query.QueueLimits(s.Query.MaxConcurrency))
	q.lists.Set(s.Query.QueueLimits(s.Query.MaxLists))
	q.reads.Set(s.Query.QueueLimits(s.Storage.Remote.ReadConcurrentLimit))
}
