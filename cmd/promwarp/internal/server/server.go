// Package server is promwarp serve: it listens, answers with the present generation of settings,
// stores and doors, reloads, follows upstreams and drains. Start reading at New and Server.Run.
package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/storage"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/canary"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/traces"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/planner/placement"
)

// Config is what newServer needs.
type Config struct {
	// Settings are the server's; start from defaultSettings.
	Settings config.Settings
	// Reload reads the settings again, for SIGHUP and /-/reload. nil when there
	// is nothing to read.
	Reload func() (config.Settings, error)
	// Upstream, when set, is read from instead of what Settings name. Labels
	// are listed if it is a cache.LabelUpstream.
	Upstream backend.Fetcher
	// Embedded has the server listen nowhere: it is asked by ServeHTTP alone, and not run.
	Embedded bool
	// Examples are queries that the page offers.
	Examples []string
	// Logger is the server's log; nil discards.
	Logger *slog.Logger
}

// Server is a promwarp that listens.
type Server struct {
	cfg       Config
	logger    *slog.Logger
	start     time.Time
	listeners []net.Listener
	scheme    string

	base        *prometheus.Registry
	httpMetrics *guard.Metrics
	reloadOK    prometheus.Gauge
	reloadTime  prometheus.Gauge

	connections *connections

	queues queues
	canary *canary.Canary
	traces *traces.Sender
	active *backend.ActiveFile // nil without cache.path
	gpus   *placement.Placer   // nil if none are to be used
	memory *memory.Pool        // nil if there is no limit

	state   atomic.Pointer[string] // why not ready; nil when ready
	current atomic.Pointer[generation]

	reloading  sync.Mutex
	reloadInfo struct {
		sync.Mutex
		ok   bool
		last time.Time
	}
}

// New opens the source and binds the listen addresses. Nothing is served
// before Run; a server that is not run must be closed.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, logger: cfg.Logger, start: time.Now(), scheme: "http", base: prometheus.NewRegistry()}
	if s.logger == nil {
		s.logger = promslog.NewNopLogger()
	}
	s.connections = newConnections(max(cfg.Settings.Web.MaxConnections, 1))
	s.notReady("starting")
	s.cfg.Settings.Divide()
	cfg = s.cfg
	if err := errors.Join(s.validate(cfg.Settings), checkWebFile(cfg.Settings)); err != nil {
		return nil, config.Usage(err)
	}
	if file := cfg.Settings.Web.ConfigFile; file != "" {
		s.scheme = schemeOf(file)
	}
	s.registerMetrics()
	s.memory = footprint.NewPool(int64(cfg.Settings.Memory.Limit))
	footprint.Register(s.memory, s.base)
	s.canary = canary.New(canary.Options{
		Promwarp: s, Busy: s.queues.busy, Memory: s.memory, Logger: s.logger.With("component", "compare"), Registerer: s.base,
	})

	s.traces = traces.New(s.logger.With("component", "tracing"))
	err := s.traces.Apply(cfg.Settings.Tracing)
	if err != nil {
		return nil, config.Usage(err)
	}
	if cfg.Settings.Replaced != "" {
		s.logger.Warn(cfg.Settings.Replaced)
	}
	if err := s.listen(); err != nil {
		s.traces.Close()
		return nil, err
	}
	if s.gpus, err = backend.OpenGPUs(cfg.Settings.GPU, s.logger, s.base); err != nil {
		s.Close()
		return nil, err
	}
	g, err := s.newGeneration(cfg.Settings, nil)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.current.Store(g)
	s.canary.Set(g.compared(s.logger))
	s.upstreamChanged() // since its settings were read
	s.loaded(true)
	return s, nil
}

// registerMetrics makes and registers what outlives a reload.
func (s *Server) registerMetrics() {
	f := instrument.With(s.base)
	s.reloadOK = f.Gauge("promwarp_config_last_reload_successful", "Whether the last attempt to load the configuration was successful.")
	s.reloadTime = f.Gauge("promwarp_config_last_reload_success_timestamp_seconds", "When the configuration was last loaded successfully.")
	s.base.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("promwarp"),
	)
	s.httpMetrics = guard.NewMetrics(s.base)
	s.queues = newQueues(s.cfg.Settings, s.base)
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

// listen binds all addresses.
func (s *Server) listen() error {
	if s.cfg.Embedded {
		return nil
	}
	if err := checkAddresses(s.cfg.Settings.Web.ListenAddress); err != nil {
		return config.Usage(err)
	}
	for _, a := range s.cfg.Settings.Web.ListenAddress {
		l, err := net.Listen("tcp", a)
		if err != nil {
			s.closeListeners()
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("cannot listen on %s: the address is in use, perhaps by another promwarp; stop that, or choose another with --web.listen-address", a)
			}
			return config.Usagef("cannot listen on %s: %w; choose another address with --web.listen-address", a, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
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

// ServeHTTP answers a request with the present generation.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := s.acquire()
	if g == nil {
		http.Error(w, "promwarp is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer g.Release()
	g.handler.ServeHTTP(w, r)
}

// ready says why the server is not ready.
func (s *Server) ready() error {
	if why := s.state.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

func (s *Server) notReady(why string) { s.state.Store(&why) }

// Close releases a server that was not run. Run does it by itself.
func (s *Server) Close() {
	s.closeListeners()
	s.canary.Close()
	if g := s.current.Swap(nil); g != nil {
		g.Release()
	}
	if s.gpus != nil {
		s.gpus.Close()
	}
	footprint.EndCounting(s.memory)
	s.traces.Close()
}

// Addr is the first address that the server listens on, host:port; empty where there is none.
func (s *Server) Addr() string {
	if len(s.listeners) == 0 {
		return ""
	}
	return s.listeners[0].Addr().String()
}

// URL is the base of the server's HTTP API as seen from this machine.
func (s *Server) URL() string {
	addr := s.Addr()
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort("localhost", port)
		}
	}
	return s.scheme + "://" + addr
}

// Engine is the engine that answers queries at present.
func (s *Server) Engine() *engine.Engine { return s.current.Load().eval.Engine }

// Queryable is what queries read from at present.
func (s *Server) Queryable() storage.SampleAndChunkQueryable { return s.current.Load().reads.All }

// runtimeInfo is what /api/v1/status/runtimeinfo says.
func (s *Server) runtimeInfo() (v1.RuntimeInfo, error) {
	i := api.RuntimeInfo(s.start)
	s.reloadInfo.Lock()
	defer s.reloadInfo.Unlock()
	i.ReloadConfigSuccess, i.LastConfigTime = s.reloadInfo.ok, s.reloadInfo.last.UTC()
	return i, nil
}
