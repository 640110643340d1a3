package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The servers, as flags and results name them.
const (
	Promwarp        = "promwarp"
	Prometheus      = "prometheus"
	VictoriaMetrics = "victoriametrics"
)

const (
	prometheusModule      = "github.com/prometheus/prometheus"
	victoriaMetricsModule = "github.com/VictoriaMetrics/VictoriaMetrics"
)

// Program is a built program.
type Program struct {
	Path    string
	Version string // of its module
	Cores   int    // how many it may run on; 0 for all
}

// On is the program on so many cores alone.
func (p Program) On(cores int) Program {
	p.Cores = cores
	return p
}

// Given is the program at a path, which need not be one of the repository's.
func Given(path string) (Program, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	return Program{Path: path, Version: "given"}, err
}

// Build builds the named server's program: promwarp from the repository as it is, into dir; the
// others once, from their Go modules, into the repository's folder .build under their version. The
// current directory is somewhere below the repository's folder bench.
func Build(ctx context.Context, name, dir string, say func(string)) (Program, error) {
	r, err := findRepository(ctx)
	if err != nil {
		return Program{}, err
	}
	switch name {
	case Prometheus:
		return r.prometheus(ctx, say)
	case VictoriaMetrics:
		return r.victoriaMetrics(ctx, say)
	}
	say("building promwarp")
	p := Program{Path: filepath.Join(dir, "promwarp"), Version: "from the repository"}
	if _, err := goOutput(ctx, r.root, "build", "-o", p.Path, "./cmd/promwarp"); err != nil {
		return p, fmt.Errorf("build promwarp: %w", err)
	}
	return p, nil
}

// repository has what the benchmark builds.
type repository struct{ root string }

func findRepository(ctx context.Context) (repository, error) {
	goMod, err := goOutput(ctx, ".", "env", "GOMOD")
	if err != nil {
		return repository{}, err
	}
	r := repository{root: filepath.Dir(filepath.Dir(goMod))}
	for _, want := range []string{"bench/victoriametrics/go.mod", "cmd/promwarp/main.go"} {
		if _, err := os.Stat(filepath.Join(r.root, want)); err != nil {
			return r, fmt.Errorf("the current directory is not the repository's folder bench: %w", err)
		}
	}
	return r, nil
}

// prometheus is Prometheus of the version in the benchmark's go.mod, without service discoveries
// and web pages. It says its version as a released one does.
func (r repository) prometheus(ctx context.Context, say func(string)) (Program, error) {
	bench := filepath.Join(r.root, "bench")
	dir, err := goOutput(ctx, bench, "list", "-m", "-f", "{{.Dir}}", prometheusModule)
	if err != nil {
		return Program{}, fmt.Errorf("which version of prometheus to build: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "VERSION"))
	if err != nil {
		return Program{}, err
	}
	version := strings.TrimSpace(string(text))
	return r.once(ctx, say, "prometheus-"+version, bench,
		"-tags", "remove_all_sd", "-ldflags", "-X github.com/prometheus/common/version.Version="+version, prometheusModule+"/cmd/prometheus")
}

// victoriaMetrics is the single-node VictoriaMetrics of the version in victoriametrics/go.mod.
// Without cgo it decompresses in Go, which costs it about a fifth.
func (r repository) victoriaMetrics(ctx context.Context, say func(string)) (Program, error) {
	dir := filepath.Join(r.root, "bench", "victoriametrics")
	version, err := goOutput(ctx, dir, "list", "-m", "-f", "{{.Version}}", victoriaMetricsModule)
	if err != nil {
		return Program{}, fmt.Errorf("which version of victoria-metrics to build: %w", err)
	}
	p, err := r.once(ctx, say, "victoria-metrics-"+version, dir, victoriaMetricsModule+"/app/victoria-metrics")
	p.Version += " without cgo"
	return p, err
}

// once returns the program that the folder .build keeps under a name and a version, where go build
// in dir makes it if it is not there.
func (r repository) once(ctx context.Context, say func(string), name, dir string, args ...string) (Program, error) {
	keep := filepath.Join(r.root, ".build")
	p := Program{Path: filepath.Join(keep, name), Version: name[strings.LastIndexByte(name, '-')+1:]}
	if _, err := os.Stat(p.Path); !errors.Is(err, os.ErrNotExist) {
		return p, err
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return p, err
	}
	say(fmt.Sprintf("building %s, once; this takes some minutes", name))
	// Renamed into place, so that what is there is complete.
	part := fmt.Sprintf("%s.%d", p.Path, os.Getpid())
	defer os.Remove(part)
	if _, err := goOutput(ctx, dir, append([]string{"build", "-trimpath", "-o", part}, args...)...); err != nil {
		return p, fmt.Errorf("build %s, missing in %s: %w", name, keep, err)
	}
	return p, os.Rename(part, p.Path)
}

// goOutput runs the go command without cgo in dir and returns what it printed.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
