// Command footprint says how much of promwarp one cold request runs: sum by (job) (rate(x[5m])) over
// HTTP, of a process that was just started, in front of a Prometheus.
//
// Functions are promwarp's own, by the coverage counters of a build that has them: those that the
// request runs and a process that is asked nothing does not. That one reads the newest samples of up.
// The deepest stack is that of a profile of such requests, one after another. With -list it names the
// functions, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

var list = flag.Bool("list", false, "name the functions: file, line, name")

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "footprint:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "footprint")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "promwarp")
	if err := programs.Build("..", "-cover", "-coverpkg=github.com/promwarp/promwarp/...", "-o", bin, "./cmd/promwarp"); err != nil {
		return err
	}
	prometheus, err := programs.FromPrometheus("prometheus")
	if err != nil {
		return err
	}
	// Whatever time it is, fetches are divided, at a multiple of 6 h, in the middle of the range.
	end := time.Now().Add(-150 * time.Minute).Truncate(6 * time.Hour).Add(90 * time.Minute)
	up, _, err := programs.StartFilled(ctx, prometheus, dir, dataset.Options{Start: end.Add(-6 * time.Hour).UnixMilli(), End: time.Now().Add(time.Minute).UnixMilli(), Series: 340})
	if err != nil {
		return err
	}
	defer up.Kill()
	idle, err := functions(bin, up.URL, nil)
	if err != nil {
		return err
	}
	query := url.Values{
		"query": {"sum by (job) (rate(http_requests_total[5m]))"}, "step": {"60"},
		"start": {fmt.Sprint(end.Add(-3 * time.Hour).Unix())}, "end": {fmt.Sprint(end.Unix())},
	}
	asked, err := functions(bin, up.URL, query)
	if err != nil {
		return err
	}
	files, packages, count := map[string]bool{}, map[string]bool{}, 0
	for _, f := range slices.Sorted(maps.Keys(asked)) {
		if !idle[f] {
			if *list {
				fmt.Println(f)
			}
			file, _, _ := strings.Cut(f, ":")
			count++
			files[file], packages[path.Dir(file)] = true, true
		}
	}
	fmt.Printf("functions %d, files %d, packages %d\n", count, len(files), len(packages))
	depth, err := deepest(bin, up.URL, query)
	fmt.Printf("deepest stack %d\n", depth)
	return err
}

// functions are what a promwarp runs that is asked a query, or nothing: file, line and name.
func functions(bin, upstream string, query url.Values) (map[string]bool, error) {
	counters, err := os.MkdirTemp(filepath.Dir(bin), "counters")
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("GOCOVERDIR", counters); err != nil {
		return nil, err
	}
	p, err := start(bin, upstream)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	if query != nil {
		if err := ask(p.URL, query); err != nil {
			return nil, err
		}
	}
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	<-p.Gone
	profile := filepath.Join(counters, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", counters, "-o", profile).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	cover := exec.Command("go", "tool", "cover", "-func", profile)
	cover.Dir = ".."
	out, err := cover.Output()
	if err != nil {
		return nil, err
	}
	ran := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] != "0.0%" && f[0] != "total:" {
			ran[f[0]+f[1]] = true
		}
	}
	return ran, nil
}

func start(bin, upstream string) (*programs.Process, error) {
	return programs.StartReady("promwarp", bin, func(addr string) []string {
		return []string{"serve", "--web.listen-address=" + addr, "--upstream.url=" + upstream, "--gpu.mode=off", "--web.enable-pprof", "--web.enable-admin-api", "--log.level=warn"}
	})
}

func ask(base string, query url.Values) error {
	resp, err := http.Get(base + "/api/v1/query_range?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("promwarp answers with status %s", resp.Status)
	}
	return nil
}

// deepest is how many frames the deepest stack has that a profile sees while a promwarp that has
// nothing in its cache is asked a query, again and again.
func deepest(bin, upstream string, query url.Values) (frames int, err error) {
	p, err := start(bin, upstream)
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	profile := make(chan []byte)
	go func() {
		out, _ := exec.Command("go", "tool", "pprof", "-traces", p.URL+"/debug/pprof/profile?seconds=10").Output()
		profile <- out
	}()
	for {
		select {
		case out := <-profile:
			for stack := range strings.SplitSeq(string(out), "-----------+") {
				frames = max(frames, strings.Count(stack, "\n")-1)
			}
			return frames, nil
		default:
			if _, err := http.Post(p.URL+"/api/v1/admin/cache/drop", "", nil); err != nil {
				return 0, err
			}
			if err := ask(p.URL, query); err != nil {
				return 0, err
			}
		}
	}
}
