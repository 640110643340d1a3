// Package peers builds, starts and feeds the servers that are compared: Prometheus, promwarp and
// VictoriaMetrics. All of them listen on loopback addresses only, on ports that were free, and end
// with the benchmark. Their processes are those of e2e/programs; a Process says what one costs.
package peers

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
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
	addr, err := programs.FreeAddr()
	if err != nil {
		return nil, err
	}
	p, err := programs.Start(name, addr, command[0], append(command[1:], args(addr)...)...)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = p.Cmd.Process.Kill() })
	if err := p.WaitReady(); err != nil {
		p.Kill()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
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
	return fmt.Sprintf("/proc/%d/%s", p.Cmd.Process.Pid, file)
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
