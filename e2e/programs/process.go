// Package programs starts servers as programs of their own, for tests and for the attack.
//
// A Process is one server that serves HTTP on an address. Its output is collected, so that a
// failure can show it. Start begins one and WaitReady waits until it answers; Build and
// FromPrometheus make the programs.
package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/internal/dataset"
	"github.com/promwarp/promwarp/internal/testlog"
)

// client asks servers. One that hangs fails a test soon.
var client = &http.Client{Timeout: 30 * time.Second}

// Process is a server that was started as a program of its own.
type Process struct {
	Name string
	URL  string // of its HTTP API
	Cmd  *exec.Cmd
	Log  Output
	Gone chan struct{} // closed once it has ended
}

// Output collects what a process prints.
type Output struct{ testlog.Log }

// Tail is the end of the output, at most 30 lines.
func (o *Output) Tail() string {
	lines := strings.SplitAfter(o.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "")
}

// Failure is the output from where a program of Go failed, at most 1500 bytes; empty if it did not.
func (o *Output) Failure() string {
	text := o.String()
	for _, sign := range []string{"WARNING: DATA RACE", "fatal error: ", "panic: ", "goroutine stack exceeds"} {
		if at := strings.Index(text, sign); at >= 0 {
			return text[at:min(at+1500, len(text))]
		}
	}
	return ""
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

// StartReady starts a program on a free address and waits until it is ready.
func StartReady(name, bin string, args func(addr string) []string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	p, err := Start(name, addr, bin, args(addr)...)
	if err != nil {
		return nil, err
	}
	if err := p.WaitReady(); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// WaitReady waits until the server says that it is ready, at most a minute.
func (p *Process) WaitReady() error {
	deadline := time.Now().Add(time.Minute)
	for {
		resp, err := client.Get(p.URL + "/-/ready")
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

// Metric is the value of one of the server's own metrics, the sum of its series if it has labels.
func (p *Process) Metric(name string) (sum float64, err error) {
	resp, err := client.Get(p.URL + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(page)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			return 0, err
		}
		sum += v
		found = true
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", p.Name, name)
	}
	return sum, nil
}

// Memory is a line of what the kernel says of the process's memory, such as VmHWM, in bytes.
func (p *Process) Memory(line string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(string(status), "\n"+line+":")
	value, _, _ = strings.Cut(value, " kB")
	kb, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	return kb << 10, err
}

// ForgetPeak has the kernel begin anew with the peak of the process's memory, VmHWM.
func (p *Process) ForgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Cmd.Process.Pid), []byte("5"), 0)
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

// BuildDir is where programs that take long to build are kept, as seen from e2e/.
const BuildDir = "../.build"

// FromPrometheus returns the path of one of Prometheus's programs, of the version in go.mod,
// without service discoveries and web pages. It builds it if need be, and says its version as a
// released one does. The working directory must be e2e/.
func FromPrometheus(program string) (string, error) {
	const module = "github.com/prometheus/prometheus"
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "VERSION"))
	if err != nil {
		return "", err
	}
	version := strings.TrimSpace(string(text))
	return Keep(program+"-"+version, func(path string) error {
		return buildPrometheus(program, strings.TrimSpace(string(dir)), "-tags", "remove_all_sd", "-ldflags", "-w -X github.com/prometheus/common/version.Version="+version, "-o", path)
	})
}

// buildPrometheus builds a program of Prometheus, whose sources are in dir. promtool gets programs/kubernetes in place
// of what no tag leaves out, which takes longer to compile than all else that is only promtool's.
func buildPrometheus(program, dir string, args ...string) error {
	const all = "github.com/prometheus/prometheus/"
	if program != "promtool" {
		return Build(".", append(args, all+"cmd/"+program)...)
	}
	work, err := os.MkdirTemp("", "promwarp-promtool-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	here, err := filepath.Abs(program) // a package that there is in the overlay alone
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "cmd", program, "*.go"))
	if err != nil {
		return err
	}
	overlay := map[string]string{}
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			overlay[filepath.Join(here, filepath.Base(f))] = f
		}
	}
	main := filepath.Join(here, "main.go")
	text, err := os.ReadFile(overlay[main])
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte(all+"discovery/kubernetes"), []byte("github.com/promwarp/promwarp/e2e/programs/kubernetes"))
	overlay[main] = filepath.Join(work, "main.go")
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	file := filepath.Join(work, "overlay.json")
	if err := errors.Join(os.WriteFile(overlay[main], text, 0o600), os.WriteFile(file, list, 0o600)); err != nil {
		return err
	}
	return Build(".", append(args, "-overlay", file, "./"+program)...)
}

// Keep returns the path of a program of that name in the folder where those are kept that take
// long to build. It is built if it is not there.
func Keep(name string, build func(path string) error) (string, error) {
	dir, err := filepath.Abs(BuildDir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "e2e: building %s, once; this takes some minutes\n", name)
	// Renamed into place, so that what is there is complete.
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part)
	if err := build(part); err != nil {
		return "", err
	}
	return path, os.Rename(part, path)
}

// Build runs go build with args in dir, with the settings that the Makefile compiles with.
func Build(dir string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-p", strconv.Itoa(runtime.NumCPU())}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOGC=400", "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
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

// StartFilled starts a Prometheus over generated data, which it writes into the folder data of dir.
func StartFilled(ctx context.Context, bin, dir string, o dataset.Options) (*Process, dataset.Stats, error) {
	data, config := filepath.Join(dir, "data"), filepath.Join(dir, "prometheus.yml")
	stats, err := dataset.WriteBlocks(ctx, data, o)
	if err != nil {
		return nil, stats, err
	}
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		return nil, stats, err
	}
	p, err := StartReady("Prometheus", bin, func(addr string) []string { return PrometheusArgs(addr, data, config) })
	return p, stats, err
}
