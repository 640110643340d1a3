// Package server is promwarp serve: it listens, answers with the present generation of settings,
// stores and doors, reloads, follows upstreams and drains. Start reading at New and Server.Run.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/canary"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/traces"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection/slab"
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
	Upstream cache.Upstream
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
	leaf      bool // the last of them is for Thanos's Queriers
	scheme    string

	base        *prometheus.Registry
	httpMetrics *guard.Metrics
	reloadOK    prometheus.Gauge
	reloadTime  prometheus.Gauge

	connections *connections

	queues queues
	canary *canary.Canary
	inside func() // ends the canary's way to ask
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
	s := &Server{cfg: cfg, logger: cfg.Logger, start: time.Now(), base: prometheus.NewRegistry()}
	if s.logger == nil {
		s.logger = promslog.NewNopLogger()
	}
	s.connections = &connections{}
	most := max(cfg.Settings.Web.MaxConnections, 1)
	s.connections.queue = queue.New(queue.Limits{
		Slots: most, Spare: most / spareConnections, MaxWaiting: waitingConnections * most, MaxWait: longestWait,
	}, nil)
	s.notReady("starting")
	s.cfg.Settings.Divide()
	cfg = s.cfg
	if err := errors.Join(s.validate(cfg.Settings), checkWebFile(cfg.Settings)); err != nil {
		return nil, config.Usage(err)
	}
	s.scheme = schemeOf(cfg.Settings.Web.Config.File)
	s.registerMetrics()
	s.memory = footprint.NewPool(int64(cfg.Settings.Memory.Limit), s.base)
	own, end := client.Inside(s)
	s.inside, own.Longest = end, canary.LongestAnswer
	s.canary = canary.New(canary.Options{
		Promwarp: own, Memory: s.memory, Logger: s.logger.With("component", "compare"), Registerer: s.base,
		Busy: func() bool { // queries wait for a slot, or as many run as there are cores
			return s.queues.queries.Waiting() > 0 || s.queues.queries.Running() >= runtime.GOMAXPROCS(0)
		},
	})

	s.traces = traces.New(s.logger.With("component", "tracing"))
	err := s.traces.Apply(cfg.Settings.Tracing)
	if err != nil {
		s.Close()
		return nil, config.Usage(err)
	}
	if cfg.Settings.Replaced != "" {
		s.logger.Warn(cfg.Settings.Replaced)
	}
	if err := s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	if s.gpus, err = backend.OpenGPUs(cfg.Settings.GPU, cfg.Settings.Memory.Limit, s.logger, s.base); err != nil {
		s.Close()
		return nil, err
	}
	g, err := s.newGeneration(cfg.Settings, nil)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.current.Store(g)
	s.canary.Set(g.compared())
	s.upstreamChanged() // since its settings were read
	s.loaded(true)
	return s, nil
}

// Embed starts a promwarp inside this process, which the client alone can ask: it listens on no address,
// keeps nothing on disk, and fetches nothing ahead. Stop ends it.
func Embed(set config.Settings, logger *slog.Logger) (c *client.Client, stop func(), err error) {
	set.Cache.Path, set.Cache.PrefetchRequests = "", 0
	set.Web = config.Default().Web
	s, err := New(Config{Settings: set, Logger: logger, Embedded: true})
	if err != nil {
		return nil, nil, err
	}
	c, end := client.Inside(s)
	return c, func() { end(); s.Close() }, nil
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
	of := func(name string) *queue.Queue {
		return queue.New(queue.Limits{}, prometheus.WrapRegistererWith(prometheus.Labels{"queue": name}, s.base))
	}
	s.queues = queues{queries: of("query"), reads: of("read"), lists: of("list"), tooLarge: memory.NewTooLarge()}
	s.queues.set(s.cfg.Settings)
}

// listen binds all addresses.
func (s *Server) listen() error {
	if s.cfg.Embedded {
		return nil
	}
	if err := checkAddresses(s.cfg.Settings); err != nil {
		return config.Usage(err)
	}
	for _, a := range s.cfg.Settings.Web.ListenAddress {
		l, err := net.Listen("tcp", a)
		if err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("cannot listen on %s: the address is in use, perhaps by another promwarp; stop that, or choose another with --web.listen-address", a)
			}
			return config.Usagef("cannot listen on %s: %w; choose another address with --web.listen-address", a, err)
		}
		s.listeners = append(s.listeners, l)
	}
	if a := s.cfg.Settings.GRPC.ListenAddress; a != "" {
		l, err := net.Listen("tcp", a)
		if err != nil {
			return config.Usagef("cannot listen on %s: %w; choose another address with --grpc.listen-address", a, err)
		}
		s.listeners, s.leaf = append(s.listeners, l), true
	}
	return nil
}

// ServeHTTP answers a request with the present generation.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, func(g *generation) http.Handler { return g.handler })
}

// answerLeaf answers a Querier of Thanos with the present generation.
func (s *Server) answerLeaf(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, func(g *generation) http.Handler { return g.leaf })
}

// answer answers a request with a handler of the present generation, which stays open meanwhile.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, of func(*generation) http.Handler) {
	g := s.acquire()
	if g == nil {
		http.Error(w, "promwarp is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer g.Release()
	of(g).ServeHTTP(w, r)
}

func (s *Server) notReady(why string) { s.state.Store(&why) }

// Close releases a server that was not run. Run does it by itself.
func (s *Server) Close() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.canary.Close()
	s.inside()
	if g := s.current.Swap(nil); g != nil {
		g.Release()
	}
	if s.gpus != nil {
		s.gpus.Close()
	}
	if s.memory != nil {
		slab.CountMemory(nil)
	}
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

// Check names all that New would refuse, but for addresses that others use and upstreams without
// remote read. It changes nothing.
func Check(set config.Settings) error {
	return errors.Join(set.Validate(), checkWebFile(set), checkAddresses(set), traces.Check(set.Tracing), backend.Check(set))
}

// checkAddresses checks that all addresses can be listened on at once. One that stands for all of the
// machine's addresses, as 0.0.0.0 does, leaves its port to no other.
func checkAddresses(set config.Settings) (wrong error) {
	var before []*net.TCPAddr
	everywhere := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	check := func(setting, text, example string) {
		a, err := net.ResolveTCPAddr("tcp", text)
		if err == nil && a.Port != 0 && slices.ContainsFunc(before, func(b *net.TCPAddr) bool {
			return a.Port == b.Port && (a.IP.Equal(b.IP) || everywhere(a.IP) || everywhere(b.IP))
		}) {
			err = errors.New("an entry before has this address")
		}
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %s: %w; write another, such as %s", setting, text, err, example))
			return
		}
		before = append(before, a)
	}
	for i, text := range set.Web.ListenAddress {
		check(fmt.Sprintf("web.listen_address: entry %d", i+1), text, "127.0.0.1:9201")
	}
	if text := set.GRPC.ListenAddress; text != "" {
		check("grpc.listen_address", text, "127.0.0.1:10901")
	}
	return wrong
}

// checkWebFile checks the file that turns on TLS or authentication.
func checkWebFile(set config.Settings) error {
	if err := web.Validate(set.Web.Config.File); err != nil { // of no file there is none
		return fmt.Errorf("web.config.file %s: %w", set.Web.Config.File, err)
	}
	return nil
}

// schemeOf is https if an exporter-toolkit configuration file, if there is one, turns on TLS.
func schemeOf(file string) string {
	var c struct {
		TLS map[string]any `yaml:"tls_server_config"`
	}
	if b, err := os.ReadFile(file); err == nil && yaml.Unmarshal(b, &c) == nil && len(c.TLS) > 0 {
		return "https"
	}
	return "http"
}

// headerTimeout is the longest that the header of a request takes to arrive.
const headerTimeout = 10 * time.Second

// Run serves until ctx is done, then drains: it is no longer ready, takes no
// more connections, and waits for the requests under way as long as
// web.shutdown-timeout allows. SIGHUP reloads. The server is closed when Run
// returns.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	servers := s.servers()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.serve(servers) })
	g.Go(func() error {
		<-ctx.Done()
		s.drain(servers)
		return nil
	})
	g.Go(func() error {
		footprint.Return(ctx, s.memory)
		return nil
	})
	g.Go(func() error {
		s.connections.tend(ctx, false)
		return nil
	})
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	g.Go(func() error {
		for {
			select {
			case <-hup:
				if s.cfg.Reload == nil {
					s.logger.Warn("SIGHUP: there is no configuration file to reload; start with --config.file to have one")
					continue
				}
				_ = s.Reload() // says in the log what is wrong
			case <-ctx.Done():
				return nil
			}
		}
	})
	s.state.Store(nil)
	from := s.current.Load().reads.String()
	if s.cfg.Upstream != nil {
		from = "built in"
	}
	s.logger.Info("ready: in Grafana add a Prometheus data source with this URL; in Prometheus list it under remote_read",
		"grafana_url", s.URL(), "remote_read_url", s.URL()+config.ReadPath, "reads_from", from)
	if s.leaf {
		s.logger.Info("a Thanos Querier may have this as an --endpoint", "address", s.listeners[len(s.listeners)-1].Addr())
	}
	return g.Wait()
}

// servers returns one HTTP server a listener: exporter-toolkit changes the one
// that it is given.
func (s *Server) servers() []*http.Server {
	web := s.cfg.Settings.Web
	servers := make([]*http.Server, len(s.listeners))
	for i := range servers {
		servers[i] = &http.Server{
			Handler:           s,
			ReadHeaderTimeout: min(headerTimeout, time.Duration(web.ReadTimeout)),
			ReadTimeout:       time.Duration(web.ReadTimeout), // the idle timeout, too
			MaxHeaderBytes:    int(web.MaxHeaderBytes),
			ConnState:         s.connections.state,
			ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
			// The doors see to clients that read nothing of a stream.
			HTTP2: &http.HTTP2Config{WriteByteTimeout: time.Duration(web.WriteTimeout)},
		}
	}
	if s.leaf {
		of := servers[len(servers)-1]
		of.Handler, of.Protocols = http.HandlerFunc(s.answerLeaf), new(http.Protocols)
		of.Protocols.SetHTTP2(true)
		of.Protocols.SetUnencryptedHTTP2(true)
	}
	return servers
}

// serve serves until the servers are shut down.
func (s *Server) serve(servers []*http.Server) error {
	var g errgroup.Group
	flags := &web.FlagConfig{WebConfigFile: &s.cfg.Settings.Web.Config.File}
	for i, l := range s.listeners {
		g.Go(func() error {
			err := web.Serve(s.connections.limit(l), servers[i], flags, s.logger)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			for _, other := range servers {
				_ = other.Close()
			}
			return fmt.Errorf("serving on %s: %w", l.Addr(), err)
		})
	}
	return g.Wait()
}

// drain shuts the servers down.
func (s *Server) drain(servers []*http.Server) {
	s.logger.Info("stopping: waiting for requests under way", "at_most", time.Duration(s.cfg.Settings.Web.ShutdownTimeout))
	s.notReady("shutting down")
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.cfg.Settings.Web.ShutdownTimeout))
	defer cancel()
	drained, done := context.WithCancel(ctx)
	defer done()
	go s.connections.tend(drained, true)
	var wg sync.WaitGroup
	for _, srv := range servers {
		wg.Go(func() {
			if err := srv.Shutdown(ctx); err != nil {
				s.logger.Warn("requests were still under way at the end of web.shutdown-timeout; breaking them off", "err", err)
				_ = srv.Close()
			}
		})
	}
	wg.Wait()
	s.logger.Info("stopped")
}
