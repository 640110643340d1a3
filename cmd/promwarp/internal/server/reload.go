package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
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
	if !s.current.CompareAndSwap(old, g) {
		g.Release()
		return fmt.Errorf("the server is shutting down")
	}
	old.Release() // the server's own hold
	s.queues.set(next)
	s.canary.Set(g.compared(s.logger))
	s.warnOfFixed(next)
	s.logger.Info("the configuration was reloaded",
		"reads_from", g.reads, "cache_kept", slices.Equal(g.reads.Stores, old.reads.Stores), "limits_changed", g.eval != old.eval)
	return nil
}

// warnOfFixed says which changes take a restart.
func (s *Server) warnOfFixed(next config.Settings) {
	was, is := s.cfg.Settings.Values(), next.Values()
	for _, flag := range config.NeedRestart() {
		if was[flag] != is[flag] {
			s.logger.Warn("a setting that changed takes effect only after a restart", "setting", flag, "running", was[flag], "configured", is[flag])
		}
	}
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
	if !s.current.CompareAndSwap(old, g) {
		g.Release()
		return
	}
	old.Release() // the server's own hold
	s.canary.Set(g.compared(s.logger))
	s.logger.Info("following the upstream's settings", "evaluation_interval", from.Interval, "lookback_delta", from.Lookback, "features", from.Features)
}
