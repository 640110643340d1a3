package peers

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/promwarp/promwarp/e2e/programs"
)

// The servers, as flags and results name them.
const (
	Promwarp        = "promwarp"
	Prometheus      = "prometheus"
	VictoriaMetrics = "victoriametrics"
)

const victoriaMetricsModule = "github.com/VictoriaMetrics/VictoriaMetrics"

// Program is a built program.
type Program struct {
	Path    string
	Version string // of its module
	Commit  string // of promwarp's sources; empty where it is not known
	Cores   int    // how many it may run on; 0 for all
}

// On is the program on a number of cores alone.
func (p Program) On(cores int) Program {
	p.Cores = cores
	return p
}

// Given is the named server's program at a path, which need not be one of the repository's.
func Given(ctx context.Context, name, path string) (Program, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Program{}, err
	}
	p := Program{Path: path, Version: "given"}
	if _, err := os.Stat(path); err != nil {
		return Program{}, err
	}
	if info, err := buildinfo.ReadFile(path); err == nil && info.Main.Version != "" {
		p.Version += ", " + info.Main.Version
	}
	if name == Promwarp {
		p.Commit, err = commitOf(ctx, path)
	}
	return p, err
}

// commitOf is the commit that a promwarp shows as its revision, in eight digits, with what stands
// behind the digits where its sources were modified; empty if it shows none.
func commitOf(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return "", fmt.Errorf("ask the program for its commit by %s version: %w", path, err)
	}
	_, revision, _ := strings.Cut(string(out), "revision:")
	revision, _, _ = strings.Cut(strings.TrimLeft(revision, " "), "\n")
	digits := strings.TrimLeft(revision, "0123456789abcdef")
	if len(digits) == len(revision) {
		return "", nil
	}
	return revision[:min(8, len(revision)-len(digits))] + digits, nil
}

// commitOfCheckout is the commit of the repository that the current directory is in, as git has it;
// empty where there is no git or no checkout.
func commitOfCheckout(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=-modified", "--abbrev=8", "--exclude=*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Build builds the named server's program without cgo: promwarp from the repository as it is, into
// dir; the others once, from their Go modules, into the repository's folder .build under their
// version. The current directory must be the repository's folder bench.
func Build(ctx context.Context, name, dir string, say func(string)) (Program, error) {
	const pinned = "victoriametrics" // the folder with the module that VictoriaMetrics is built in
	if _, err := os.Stat(filepath.Join(pinned, "go.mod")); err != nil {
		return Program{}, fmt.Errorf("the current directory is not the repository's folder bench: %w", err)
	}
	if err := os.Setenv("CGO_ENABLED", "0"); err != nil {
		return Program{}, err
	}
	say("building " + name + ", or finding it built")
	var path, suffix string
	var err error
	switch name {
	case Prometheus:
		path, err = programs.FromPrometheus("prometheus")
	case VictoriaMetrics:
		suffix = " without cgo" // it decompresses in Go, which costs it about a fifth
		list := exec.CommandContext(ctx, "go", "list", "-C", pinned, "-m", "-f", "{{.Version}}", victoriaMetricsModule)
		var version []byte
		if version, err = list.Output(); err != nil {
			return Program{}, fmt.Errorf("which version of VictoriaMetrics to build: %w", err)
		}
		path, err = programs.Keep("victoria-metrics-"+strings.TrimSpace(string(version)), func(path string) error {
			return programs.Build(pinned, "-trimpath", "-o", path, victoriaMetricsModule+"/app/victoria-metrics")
		})
	default:
		path = filepath.Join(dir, "promwarp")
		if err := programs.Build("..", "-buildvcs=auto", "-o", path, "./cmd/promwarp"); err != nil {
			return Program{}, err
		}
		commit, err := commitOf(ctx, path)
		return Program{Path: path, Version: "from the repository", Commit: cmp.Or(commit, commitOfCheckout(ctx))}, err
	}
	return Program{Path: path, Version: path[strings.LastIndexByte(path, '-')+1:] + suffix}, err
}

// pinned is the command that runs a program on its number of cores, which this program may run on,
// too; on all of these for 0.
func pinned(program Program) ([]string, error) {
	if program.Cores == 0 {
		return []string{program.Path}, nil
	}
	order, err := spread()
	if err != nil {
		return nil, fmt.Errorf("which cores there are: %w", err)
	}
	if program.Cores > len(order) {
		return nil, fmt.Errorf("%d cores are asked for, and there are %d", program.Cores, len(order))
	}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(order[:program.Cores]), " ", ","), "[]")
	return []string{"taskset", "-c", list, program.Path}, nil
}

// spread is the order in which cores are given to programs that may have only some: the first
// thread of each physical core, where the system tells threads apart, before any second one.
func spread() ([]int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	cpus := parseList(list)
	threads := make(map[int]int, len(cpus)) // which of its core's threads each is
	for _, cpu := range cpus {
		list, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		if err == nil {
			threads[cpu] = slices.Index(parseList(string(list)), cpu)
		}
	}
	slices.SortStableFunc(cpus, func(a, b int) int { return cmp.Compare(threads[a], threads[b]) })
	return cpus, nil
}

// parseList reads a list of numbers as the kernel writes it, "0-3,8". What is no number is left
// out.
func parseList(s string) (list []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		for n := first; err == nil && err2 == nil && n <= last; n++ {
			list = append(list, n)
		}
	}
	return list
}
