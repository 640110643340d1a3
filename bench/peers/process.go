// Package peers builds, starts and feeds the servers that are compared: Prometheus, promwarp and
// VictoriaMetrics. All of them listen on loopback addresses only, on ports that were free, and end
// with the benchmark. Their processes are those of e2e/programs; a Process says what one costs.
package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// Process is a server that was started as a program of its own.
type Process struct{ *programs.Process }

// start runs a program with the arguments for an address, on which it will serve HTTP, and waits
// until it is ready. The program is killed when ctx is done.
func start(ctx context.Context, name string, program Program, args func(addr string) []string) (*Process, error) {
	command, err := pinned(program)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p, err := programs.StartReady(name, command[0], func(addr string) []string { return append(command[1:], args(addr)...) })
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = p.Cmd.Process.Kill() })
	return &Process{p}, nil
}

// Alive returns an error with the end of the process's output if it has ended.
func (p *Process) Alive() error {
	if !p.Ended() {
		return nil
	}
	return fmt.Errorf("%s ended (%s) during the benchmark:\n%s", p.Name, p.Cmd.ProcessState, p.Log.Tail())
}

// Terminate asks the process to end in order and waits for its end.
func (p *Process) Terminate(ctx context.Context) error {
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end %s: %w", p.Name, err)
	}
	select {
	case <-p.Gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// StartPromwarp starts a promwarp with nothing in its cache, as it is by default but for what the
// arguments say, of which one names an upstream or a data directory.
func StartPromwarp(ctx context.Context, program Program, args ...string) (*Process, error) {
	return start(ctx, "promwarp", program, func(addr string) []string {
		return append([]string{"serve", "--web.listen-address=" + addr, "--log.level=warn"}, args...)
	})
}

// StartPrometheus starts a Prometheus that is configured by text, with its files in dir and its
// samples in dir/data, and with further flags.
func StartPrometheus(ctx context.Context, program Program, dir, text string, flags ...string) (*Process, error) {
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, "Prometheus", program, func(addr string) []string {
		return append(append(programs.PrometheusArgs(addr, filepath.Join(dir, "data"), config), "--log.level=warn"), flags...)
	})
}

// StartVictoriaMetrics starts a VictoriaMetrics that keeps its data below dir, where there may be
// some of an earlier one, and does not refuse large queries.
func StartVictoriaMetrics(ctx context.Context, program Program, dir string) (*Process, error) {
	return start(ctx, "VictoriaMetrics", program, func(addr string) []string {
		return []string{
			"-httpListenAddr=" + addr,
			"-storageDataPath=" + filepath.Join(dir, "victoria-metrics"),
			"-retentionPeriod=100y",
			"-search.latencyOffset=0s",
			"-search.maxUniqueTimeseries=10000000",
			"-search.maxSamplesPerQuery=10000000000",
			"-search.maxQueryDuration=2m",
			"-search.logSlowQueryDuration=0",
			"-loggerLevel=WARN",
		}
	})
}

// Settle makes VictoriaMetrics write out what it was sent, checks that these
// were as many samples as given, and merges its parts into one, so that it is
// measured at its best and does nothing else meanwhile.
func Settle(ctx context.Context, p *Process, samples int64) error {
	if err := get(ctx, p.URL+"/internal/force_flush"); err != nil {
		return err
	}
	if n, err := p.Metric(`vm_rows_inserted_total{type="promremotewrite"}`); err != nil || int64(n) != samples {
		return errors.Join(err, fmt.Errorf("%s took %.0f samples of %d", p.Name, n, samples))
	}
	if err := get(ctx, p.URL+"/internal/force_merge"); err != nil {
		return err
	}
	for {
		// It begins to merge some time after it was told to.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
		forced, err := p.Metric("vm_active_force_merges")
		all, err2 := p.Metric("vm_active_merges")
		if err := errors.Join(err, err2); err != nil || forced+all == 0 {
			return err
		}
	}
}

// get has a server do what its page at url does.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode/100 != 2 {
		return fmt.Errorf("get %s: %w", url, cmp.Or(err, fmt.Errorf("%s: %.200s", resp.Status, body)))
	}
	return nil
}

// Feed sends the data set to the server p over Prometheus's remote write,
// which, unlike a text format, carries stale markers as they are.
func Feed(ctx context.Context, p *Process, o dataset.Options) (dataset.Stats, error) {
	g, err := dataset.New(o)
	if err != nil {
		return dataset.Stats{}, err
	}
	if err := g.Write(ctx, programs.RemoteWrite(p.URL), o.End); err != nil {
		return g.Stats(), fmt.Errorf("feed %s: %w", p.Name, err)
	}
	return g.Stats(), nil
}
