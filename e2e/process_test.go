package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

// process is a server that was started as a program of its own.
type process struct {
	*programs.Process
	name string
	url  string // of its HTTP API
	cmd  *exec.Cmd
	log  output
	gone <-chan struct{} // closed once it has ended
}

// output is what a process prints.
type output struct{ *programs.Output }

// tail is the end of the output.
func (o output) tail() string { return o.Tail() }

// check fails a test in which promwarp failed as a program, or wrote a second status to an answer: some
// of it had gone out.
func (o output) check(t *testing.T, name string) {
	if failure := o.Failure(); name == "promwarp" && failure != "" {
		t.Errorf("promwarp printed:\n%s", failure)
	}
	if name == "promwarp" && strings.Contains(o.String(), "superfluous") {
		t.Errorf("promwarp answered twice:\n%s", o.tail())
	}
}

// start runs a program that will serve HTTP on addr.
func start(name, addr, bin string, args ...string) (*process, error) {
	p, err := programs.Start(name, addr, bin, args...)
	if err != nil {
		return nil, err
	}
	return newProcess(p), nil
}

func newProcess(p *programs.Process) *process {
	return &process{Process: p, name: p.Name, url: p.URL, cmd: p.Cmd, log: output{&p.Log}, gone: p.Gone}
}

// waitReady waits until the server says that it is ready.
func (p *process) waitReady() error { return p.WaitReady() }

// kill ends the process at once.
func (p *process) kill() { p.Kill() }

// signal sends s.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// wait waits for the process to end and returns its exit code.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.gone:
	case <-time.After(limit):
		t.Fatalf("%s still runs after %s:\n%s", p.name, limit, p.log.tail())
	}
	return p.cmd.ProcessState.ExitCode()
}

// runServer starts a program, waits until it is ready and ends it with the test.
func runServer(t *testing.T, name, addr, bin string, args ...string) *process {
	t.Helper()
	p, err := start(name, addr, bin, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.kill()
		p.log.check(t, name)
		if t.Failed() {
			t.Logf("the end of %s's output:\n%s", p.name, p.log.tail())
		}
	})
	require.NoError(t, p.waitReady())
	return p
}

// freeAddr is a loopback address that was free a moment ago.
func freeAddr() (string, error) { return programs.FreeAddr() }

func mustFreeAddr(t *testing.T) string {
	t.Helper()
	addr, err := freeAddr()
	require.NoError(t, err)
	return addr
}

// prometheusArgs are the arguments of a Prometheus that keeps its data
// directory as it is.
func prometheusArgs(addr, dataDir, configFile string) []string {
	return programs.PrometheusArgs(addr, dataDir, configFile)
}

// prometheus starts a Prometheus.
func prometheus(t *testing.T, addr, dataDir, config string) *process {
	t.Helper()
	return runServer(t, "Prometheus", addr, prometheusBin, prometheusArgs(addr, dataDir, writeConfig(t, config))...)
}

func writeConfig(t *testing.T, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}

// promwarp starts a promwarp in front of the server at upstream.
func promwarp(t *testing.T, upstream string) *process {
	t.Helper()
	addr := mustFreeAddr(t)
	return runServer(t, "promwarp", addr, promwarpBin, promwarpArgs(addr, upstream)...)
}

func promwarpArgs(addr, upstream string) []string {
	return []string{"serve", "--upstream.url=" + upstream, "--web.listen-address=" + addr}
}
