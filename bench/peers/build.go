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

// Repository finds what the benchmark builds.
type Repository struct{ root string }

const (
	prometheusModule      = "github.com/prometheus/prometheus"
	victoriaMetricsModule = "github.com/VictoriaMetrics/VictoriaMetrics"
)

// FindRepository finds the repository that the current directory, somewhere
// below the folder bench, is in.
func FindRepository(ctx context.Context) (Repository, error) {
	goMod, err := goOutput(ctx, ".", nil, "env", "GOMOD")
	if err != nil {
		return Repository{}, err
	}
	if goMod == "" || goMod == os.DevNull {
		return Repository{}, errors.New("the current directory is not the repository's folder bench: no go.mod here or above")
	}
	bench := filepath.Dir(goMod)
	r := Repository{root: filepath.Dir(bench)}
	for _, want := range []string{filepath.Join(r.victoriaMetrics(), "go.mod"), filepath.Join(r.root, "cmd", "promwarp", "main.go")} {
		if _, err := os.Stat(want); err != nil {
			return r, fmt.Errorf("the current directory is not the repository's folder bench: %w", err)
		}
	}
	return r, nil
}

func (r Repository) bench() string           { return filepath.Join(r.root, "bench") }
func (r Repository) victoriaMetrics() string { return filepath.Join(r.bench(), "victoriametrics") }

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

// Prometheus builds Prometheus of the version in the benchmark's go.mod,
// without service discoveries and web pages, or finds it built. It says its
// version as a released one does.
func (r Repository) Prometheus(ctx context.Context, say func(string)) (Program, error) {
	dir, err := goOutput(ctx, r.bench(), nil, "list", "-m", "-f", "{{.Dir}}", prometheusModule)
	if err != nil {
		return Program{}, fmt.Errorf("which version of prometheus to build: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "VERSION"))
	if err != nil {
		return Program{}, err
	}
	version := strings.TrimSpace(string(text))
	return r.kept(ctx, say, Program{Version: version}, "prometheus", r.bench(), nil,
		"-tags", "remove_all_sd", "-ldflags", "-X github.com/prometheus/common/version.Version="+version, prometheusModule+"/cmd/prometheus")
}

// VictoriaMetrics builds the single-node VictoriaMetrics of the version in
// victoriametrics/go.mod, or finds it built. With cgo it decompresses in C, as
// its releases do.
func (r Repository) VictoriaMetrics(ctx context.Context, say func(string), cgo bool) (Program, error) {
	name, env, suffix := "victoria-metrics", noCgo, " without cgo"
	if cgo {
		name, env, suffix = name+"-cgo", []string{"CGO_ENABLED=1"}, " with cgo"
	}
	p, err := r.cached(ctx, say, name, r.victoriaMetrics(), victoriaMetricsModule, env, victoriaMetricsModule+"/app/victoria-metrics")
	p.Version += suffix
	return p, err
}

// Promwarp builds promwarp from the repository as it is, into dir.
func (r Repository) Promwarp(ctx context.Context, dir string) (Program, error) {
	p := Program{Path: filepath.Join(dir, "promwarp"), Version: "from the repository"}
	if _, err := goOutput(ctx, r.root, noCgo, "build", "-o", p.Path, "./cmd/promwarp"); err != nil {
		return p, fmt.Errorf("build promwarp: %w", err)
	}
	return p, nil
}

var noCgo = []string{"CGO_ENABLED=0"}

// cached returns the program that go build makes with the arguments in the
// folder dir, kept in the repository's folder .build under its module's version.
func (r Repository) cached(ctx context.Context, say func(string), name, dir, module string, env []string, args ...string) (Program, error) {
	version, err := goOutput(ctx, dir, nil, "list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return Program{}, fmt.Errorf("which version of %s to build: %w", name, err)
	}
	return r.kept(ctx, say, Program{Version: version}, name, dir, env, args...)
}

// kept returns p with the path at which the repository's folder .build keeps it, where go build
// makes it if it is not there.
func (r Repository) kept(ctx context.Context, say func(string), p Program, name, dir string, env []string, args ...string) (Program, error) {
	keep := filepath.Join(r.root, ".build")
	p.Path = filepath.Join(keep, name+"-"+p.Version)
	switch _, err := os.Stat(p.Path); {
	case err == nil:
		return p, nil
	case !errors.Is(err, os.ErrNotExist):
		return p, err
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return p, err
	}
	say(fmt.Sprintf("building %s %s, once; this takes some minutes", name, p.Version))
	// Renamed into place, so that what is there is complete.
	part := fmt.Sprintf("%s.%d", p.Path, os.Getpid())
	defer os.Remove(part)
	if _, err := goOutput(ctx, dir, env, append([]string{"build", "-trimpath", "-o", part}, args...)...); err != nil {
		return p, fmt.Errorf("build %s %s, missing in %s: %w", name, p.Version, keep, err)
	}
	return p, os.Rename(part, p.Path)
}

// goOutput runs the go command in dir with additional environment variables
// and returns what it printed.
func goOutput(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
