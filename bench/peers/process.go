// Package peers builds, starts and feeds the servers that are compared: Prometheus, promwarp and
// VictoriaMetrics. All of them listen on loopback addresses only, on ports that were free, and end
// with the benchmark. Their processes are those of e2e/programs; a Process says what one costs.
package peers

import (
	"context"
	"fmt"
	"syscall"

	"github.com/promwarp/promwarp/e2e/programs"
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
