// Package programs starts servers as programs of their own, for tests and for the attack.
//
// A Process is one server that serves HTTP on an address. Its output is collected, so that a
// failure can show it. Start begins one and WaitReady waits until it answers; Build and
// Prometheus in build.go make the programs.
package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Process is a server that was started as a program of its own.
type Process struct {
	Name string
	URL  string // of its HTTP API
	Cmd  *exec.Cmd
	Log  Output
	Gone chan struct{} // closed once it has ended
}

// Output collects what a process prints.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Tail is the end of the output, at most 30 lines.
func (o *Output) Tail() string {
	lines := strings.SplitAfter(o.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "")
}

// Start runs a program that will serve HTTP on addr. The program ends with the caller.
func Start(name, addr, bin string, args ...string) (*Process, error) {
	p := &Process{Name: name, URL: "http://" + addr, Gone: make(chan struct{})}
	p.Cmd = exec.Command(bin, args...)
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Log, &p.Log
	dieWithParent(p.Cmd)
	if err := p.Cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.Cmd.Wait()
		close(p.Gone)
	}()
	return p, nil
}

// WaitReady waits until the server says that it is ready, at most a minute.
func (p *Process) WaitReady() error {
	deadline := time.Now().Add(time.Minute)
	for {
		resp, err := http.Get(p.URL + "/-/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		select {
		case <-p.Gone:
			return fmt.Errorf("%s ended (%s) before it was ready:\n%s", p.Name, p.Cmd.ProcessState, p.Log.Tail())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after a minute: %w\n%s", p.Name, err, p.Log.Tail())
		}
	}
}

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Gone:
		return true
	default:
		return false
	}
}

// Kill ends the process at once and waits until it is gone.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Gone
}

// FreeAddr is a loopback address that was free a moment ago.
func FreeAddr() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// PrometheusArgs are the arguments of a Prometheus that keeps its data directory as it is.
func PrometheusArgs(addr, dataDir, configFile string) []string {
	return []string{
		"--config.file=" + configFile,
		"--storage.tsdb.path=" + dataDir,
		"--storage.tsdb.retention.time=10y",
		"--storage.tsdb.min-block-duration=2h",
		"--storage.tsdb.max-block-duration=2h",
		"--web.listen-address=" + addr,
	}
}
