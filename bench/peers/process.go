// Package peers builds, starts and feeds the servers that are compared:
// Prometheus, promwarp and VictoriaMetrics. All of them listen on loopback
// addresses only, on ports that were free, and end with the benchmark.
package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a server that was started as a program of its own, and listens on
// a loopback address.
type Process struct {
	URL string // of its HTTP API

	name string
	cmd  *exec.Cmd
	log  output
	gone chan struct{} // closed once it has ended
}

// readyLimit is how long a server may take to start.
const readyLimit = 2 * time.Minute

// place is where a server listens, and the page that answers once it is ready.
type place struct{ addr, ready string }

// start runs a program that will serve HTTP, and waits until it is ready. The program is killed
// when ctx is done.
func start(ctx context.Context, name string, at place, program Program, args ...string) (*Process, error) {
	p := &Process{URL: "http://" + at.addr, name: name, gone: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program.Path, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	dieWithParent(p.cmd)
	if err := startOn(p.cmd, program.Cores); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	if err := p.waitReady(ctx, at.ready); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func (p *Process) waitReady(ctx context.Context, path string) error {
	deadline := time.Now().Add(readyLimit)
	for {
		err := p.probe(ctx, path)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.gone:
			return p.ended("before it was ready")
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %s: %w\n%s", p.name, readyLimit, err, p.log.tail())
		}
	}
}

func (p *Process) probe(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func (p *Process) ended(when string) error {
	return fmt.Errorf("%s ended (%s) %s:\n%s", p.name, p.cmd.ProcessState, when, p.log.tail())
}

// Alive returns an error with the end of the process's output if it has ended.
func (p *Process) Alive() error {
	select {
	case <-p.gone:
		return p.ended("during the benchmark")
	default:
		return nil
	}
}

// Kill ends the process and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// Terminate asks the process to end in order and waits for its end.
func (p *Process) Terminate(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// PeakRSS is the most memory in bytes that the process held at once since its
// start or the last ResetPeakRSS: the kernel's VmHWM, which counts pages of
// mapped files, too. It is 0 where the system does not say, and for a process
// that has ended.
func (p *Process) PeakRSS() int64 {
	status, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0
	}
	return parsePeak(string(status))
}

// ResetPeakRSS makes PeakRSS count anew, where the system can.
func (p *Process) ResetPeakRSS() {
	_ = os.WriteFile(p.proc("clear_refs"), []byte("5"), 0o200)
}

func (p *Process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

// parsePeak reads the peak in bytes from a process's status, 0 if it is not there.
func parsePeak(status string) int64 {
	_, rest, ok := strings.Cut(status, "\nVmHWM:")
	if !ok {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// output keeps the end of what a process prints.
type output struct {
	mu sync.Mutex
	b  []byte
}

// outputLimit is how many bytes of output are kept at least.
const outputLimit = 8 << 10

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b = append(o.b, p...)
	if len(o.b) > 2*outputLimit {
		o.b = append(o.b[:0], o.b[len(o.b)-outputLimit:]...)
	}
	return len(p), nil
}

// tail is the last lines of the output.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.SplitAfter(string(o.b), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
