package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/oklog/run"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
)

// headerTimeout is the longest that the header of a request takes to arrive.
const headerTimeout = 10 * time.Second

// Run serves until ctx is done, then drains: it is no longer ready, takes no
// more connections, and waits for the requests under way as long as
// web.shutdown-timeout allows. SIGHUP reloads. The server is closed when Run
// returns.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	var g run.Group

	stop := make(chan struct{})
	g.Add(func() error {
		select {
		case <-ctx.Done():
			s.logger.Info("stopping: waiting for requests under way", "at_most", time.Duration(s.cfg.Settings.Web.ShutdownTimeout))
		case <-stop:
		}
		return nil
	}, func(error) { close(stop) })

	servers := s.servers()
	g.Add(func() error { return s.serve(servers) }, func(error) { s.drain(servers) })

	returning, enough := context.WithCancel(context.Background())
	g.Add(func() error { footprint.Return(returning, s.memory); return nil }, func(error) { enough() })

	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	noMore := make(chan struct{})
	g.Add(func() error {
		for {
			select {
			case <-hup:
				if s.cfg.Reload == nil {
					s.logger.Warn("SIGHUP: there is no configuration file to reload; start with --config.file to have one")
					continue
				}
				_ = s.Reload() // says in the log what is wrong
			case <-noMore:
				return nil
			}
		}
	}, func(error) {
		signal.Stop(hup)
		close(noMore)
	})

	s.state.Store(nil)
	s.announce()
	return g.Run()
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
			// The doors see to clients that read nothing of a stream.
			HTTP2: &http.HTTP2Config{WriteByteTimeout: time.Duration(web.WriteTimeout)},
		}
	}
	return servers
}

// serve serves until the servers are shut down.
func (s *Server) serve(servers []*http.Server) error {
	var g errgroup.Group
	flags := &web.FlagConfig{WebConfigFile: &s.cfg.Settings.Web.ConfigFile}
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
	s.notReady("shutting down")
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.cfg.Settings.Web.ShutdownTimeout))
	defer cancel()
	drained, done := context.WithCancel(ctx)
	defer done()
	go s.connections.closeUnused(drained)
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

// announce logs where to point others.
func (s *Server) announce() {
	from := s.current.Load().reads.String()
	if s.cfg.Upstream != nil {
		from = "built in"
	}
	s.logger.Info("ready: in Grafana add a Prometheus data source with this URL; in Prometheus list it under remote_read",
		"grafana_url", s.URL(), "remote_read_url", s.URL()+config.ReadPath, "reads_from", from)
}
