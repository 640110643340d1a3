package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
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
