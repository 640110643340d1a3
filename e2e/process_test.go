package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a server that was started as a program of its own.
type process struct {
	name string
	url  string // of its HTTP API
	cmd  *exec.Cmd
	log  output
	gone chan struct{} // closed once it has ended
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// tail is the end of the output.
func (o *output) tail() string {
	lines := strings.SplitAfter(o.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "")
}

// start runs a program that will serve HTTP on addr.
func start(name, addr, bin string, args ...string) (*process, error) {
	p := &process{name: name, url: "http://" + addr, gone: make(chan struct{})}
	p.cmd = exec.Command(bin, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

// waitReady waits until the server says that it is ready.
func (p *process) waitReady() error {
	deadline := time.Now().Add(time.Minute)
	for {
		resp, err := http.Get(p.url + "/-/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		select {
		case <-p.gone:
			return fmt.Errorf("%s ended (%s) before it was ready:\n%s", p.name, p.cmd.ProcessState, p.log.tail())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after a minute: %w\n%s", p.name, err, p.log.tail())
		}
	}
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

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
		if t.Failed() {
			t.Logf("the end of %s's output:\n%s", p.name, p.log.tail())
		}
	})
	require.NoError(t, p.waitReady())
	return p
}

// freeAddr is a loopback address that was free a moment ago.
func freeAddr() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func mustFreeAddr(t *testing.T) string {
	t.Helper()
	addr, err := freeAddr()
	require.NoError(t, err)
	return addr
}

// prometheusArgs are the arguments of a Prometheus that keeps its data
// directory as it is.
func prometheusArgs(addr, dataDir, configFile string) []string {
	return []string{
		"--config.file=" + configFile,
		"--storage.tsdb.path=" + dataDir,
		"--storage.tsdb.retention.time=10y",
		"--storage.tsdb.min-block-duration=2h",
		"--storage.tsdb.max-block-duration=2h",
		"--web.listen-address=" + addr,
	}
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
