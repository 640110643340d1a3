package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/units"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// starting says what to start.
type starting struct {
	promwarpBin, prometheusBin string
	series                     int
	args                       string // of promwarp, besides
}

func (s *starting) register(f *flag.FlagSet) {
	f.StringVar(&s.promwarpBin, "promwarp-bin", "", "promwarp to start; by default one is built")
	f.StringVar(&s.prometheusBin, "prometheus-bin", "", "Prometheus to start; by default one is built, once")
	f.IntVar(&s.series, "series", 3400, "series of the data of what is started")
	f.StringVar(&s.args, "promwarp-args", "", "further arguments of promwarp, with spaces between them")
}

// servers are a Prometheus with a day of data until now, and a promwarp in front of it.
type servers struct {
	dir                  string
	end                  time.Time
	prometheus, promwarp *programs.Process
	again                func() (*programs.Process, error) // starts promwarp once more, at its address
	logs                 []string                          // of those that ended
}

// tight are the settings that a promwarp is started with where it has such flags: short enough to see
// them at work.
var tight = [][2]string{
	{"memory.limit", "2GiB"}, {"web.read-timeout", "15s"}, {"web.write-timeout", "15s"}, {"query.timeout", "30s"}, {"web.max-connections", "2000"},
}

// start starts both.
func (s starting) start(ctx context.Context) (started *servers, err error) {
	if err := s.build(); err != nil {
		return nil, err
	}
	started = &servers{end: time.Now().Truncate(time.Minute)}
	if started.dir, err = os.MkdirTemp("", "promwarp-attack-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			started.stop()
		}
	}()
	o := dataset.Options{Start: started.end.Add(-24 * time.Hour).UnixMilli(), End: started.end.UnixMilli(), Series: s.series, Seed: 1}
	if _, err := dataset.WriteBlocks(ctx, started.dataDir(), o, nil); err != nil {
		return nil, err
	}
	if err := started.startPrometheus(s.prometheusBin); err != nil {
		return nil, err
	}
	config := filepath.Join(started.dir, "promwarp.yml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		return nil, err
	}
	args := []string{"--config.file=" + config}
	help, err := exec.Command(s.promwarpBin, "serve", "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s serve --help: %w\n%s", s.promwarpBin, err, help)
	}
	for _, t := range tight {
		if strings.Contains(string(help), "--"+t[0]+"=") && !strings.Contains(s.args, "--"+t[0]) {
			args = append(args, "--"+t[0]+"="+t[1])
		}
	}
	addr, err := programs.FreeAddr()
	if err != nil {
		return nil, err
	}
	args = append(args, strings.Fields(s.args)...)
	started.again = func() (*programs.Process, error) { return started.startPromwarp(s.promwarpBin, addr, args...) }
	started.promwarp, err = started.again()
	return started, err
}

// revive starts promwarp again if it has ended, and says whether it had.
func (s *servers) revive() (ended bool, err error) {
	if !s.promwarp.Ended() {
		return false, nil
	}
	s.logs = append(s.logs, s.promwarp.Log.String())
	s.promwarp, err = s.again()
	return true, err
}

// log is all that promwarp printed.
func (s *servers) log() string {
	return strings.Join(s.logs, "") + s.promwarp.Log.String()
}

// build builds the programs that are not given.
func (s *starting) build() (err error) {
	if s.prometheusBin == "" {
		if s.prometheusBin, err = programs.FromPrometheus("prometheus"); err != nil {
			return fmt.Errorf("build Prometheus: %w", err)
		}
	}
	if s.promwarpBin == "" {
		if s.promwarpBin, err = filepath.Abs("../bin/promwarp"); err != nil {
			return err
		}
		cmd := exec.Command("make", "-C", "..", "build")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build promwarp: %w\n%s", err, out)
		}
	}
	return nil
}

func (s *servers) dataDir() string { return filepath.Join(s.dir, "data") }

func (s *servers) startPrometheus(bin string) error {
	config := filepath.Join(s.dir, "prometheus.yml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		return err
	}
	addr, err := programs.FreeAddr()
	if err != nil {
		return err
	}
	if s.prometheus, err = programs.Start("Prometheus", addr, bin, programs.PrometheusArgs(addr, s.dataDir(), config)...); err != nil {
		return err
	}
	return s.prometheus.WaitReady()
}

// startPromwarp starts a promwarp before the Prometheus.
func (s *servers) startPromwarp(bin, addr string, args ...string) (*programs.Process, error) {
	all := append([]string{"serve", "--gpu=off", "--upstream.url=" + s.prometheus.URL, "--web.listen-address=" + addr}, args...)
	p, err := programs.Start("promwarp", addr, bin, all...)
	if err != nil {
		return nil, err
	}
	if err := p.WaitReady(); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// stop ends both and removes the data.
func (s *servers) stop() {
	for _, p := range []*programs.Process{s.promwarp, s.prometheus} {
		if p != nil {
			p.Kill()
		}
	}
	_ = os.RemoveAll(s.dir)
}

// parseSize reads a size in bytes, such as 2GiB; 0 if it is none.
func parseSize(text string) int64 {
	n, err := units.ParseBase2Bytes(text)
	if err != nil {
		return 0
	}
	return int64(n)
}
