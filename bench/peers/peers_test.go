package peers

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// A failed build says what is missing.
func TestBuildFails(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Build(t.Context(), Promwarp, t.TempDir(), func(string) {})
	require.ErrorContains(t, err, "folder bench")
	_, err = Given(t.Context(), Promwarp, "none")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestCommit: the commit that is measured is the one that the promwarp shows, in eight digits, where
// there is neither git nor a checkout.
func TestCommit(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	for revision, want := range map[string]string{
		"d065d189faa4c19e4c5d8b56eae4d9ee5a1f1d0c":          "d065d189",
		"d065d189faa4c19e4c5d8b56eae4d9ee5a1f1d0c-modified": "d065d189-modified",
		"d065d1": "d065d1", "unknown": "", "": "",
	} {
		script := "#!/bin/sh\necho 'promwarp, version 1\n  revision:  " + revision + "\n  date:      unknown'\n"
		require.NoError(t, os.WriteFile("program", []byte(script), 0o755))
		p, err := Given(t.Context(), Promwarp, "program")
		require.NoError(t, err)
		require.Equal(t, want, p.Commit, revision)
	}
	require.Empty(t, commitOfCheckout(t.Context()))
	require.NoError(t, os.WriteFile("program", []byte("#!/bin/sh\nexit 1\n"), 0o755))
	_, err := Given(t.Context(), Promwarp, "program")
	require.ErrorContains(t, err, "ask the program for its commit")
	_, err = Given(t.Context(), Prometheus, "program")
	require.NoError(t, err)
}

// receiver takes remote-write requests.
type receiver struct {
	mu      sync.Mutex
	samples int64
	stale   int64
	refuse  bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse {
		http.Error(w, "no room", http.StatusServiceUnavailable)
		return
	}
	body, _ := io.ReadAll(req.Body)
	raw, err := snappy.Decode(nil, body)
	var wr prompb.WriteRequest
	if err = errors.Join(err, wr.Unmarshal(raw)); err != nil || req.URL.Path != "/api/v1/write" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	for _, ts := range wr.Timeseries {
		for _, s := range ts.Samples {
			r.samples++
			if value.IsStaleNaN(s.Value) {
				r.stale++
			} else if math.IsNaN(s.Value) {
				http.Error(w, "a NaN", http.StatusBadRequest)
			}
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// Everything generated arrives, stale markers included.
func TestFeed(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	o := dataset.Options{Start: 1_700_000_000_000, End: 1_700_000_000_000 + (5 * time.Hour).Milliseconds(), Series: 300, Seed: 3}
	stats, err := Feed(t.Context(), &Process{&programs.Process{Name: "receiver", URL: server.URL}}, o)
	require.NoError(t, err)
	require.Equal(t, stats.Samples, r.samples)
	require.Positive(t, r.stale)

	blocks, err := dataset.WriteBlocks(t.Context(), t.TempDir(), o)
	require.NoError(t, err)
	require.Equal(t, blocks.Samples, stats.Samples)

	r.refuse = true
	_, err = Feed(t.Context(), &Process{&programs.Process{Name: "receiver", URL: server.URL}}, o)
	require.ErrorContains(t, err, "no room")
}

// What a VictoriaMetrics that lost samples says is an error.
func TestSettle(t *testing.T) {
	pages := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages += r.URL.Path + " "
		_, _ = io.WriteString(w, "vm_rows_inserted_total{type=\"promremotewrite\"} 12\nvm_active_force_merges 0\nvm_active_merges{type=\"a\"} 0\n")
	}))
	defer server.Close()
	p := &Process{&programs.Process{Name: "VM", URL: server.URL}}
	require.NoError(t, Settle(t.Context(), p, 12))
	require.Equal(t, "/internal/force_flush /metrics /internal/force_merge /metrics /metrics ", pages)
	require.ErrorContains(t, Settle(t.Context(), p, 13), "took 12 samples of 13")
	server.Close()
	require.Error(t, Settle(t.Context(), p, 12))
}

// TestMain lets the test program play the server of TestProcess.
func TestMain(m *testing.M) {
	if os.Getenv("BENCH_TEST_SERVER") != "" {
		if os.Args[1] == "none" {
			os.Stderr.WriteString("no disk\n")
			os.Exit(3)
		}
		_ = http.ListenAndServe(os.Args[1], http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	os.Exit(m.Run())
}

func TestProcess(t *testing.T) {
	path, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("BENCH_TEST_SERVER", "yes")
	own := func(addr string) []string { return []string{addr} }
	p, err := start(t.Context(), "self", Program{Path: path}, own)
	require.NoError(t, err)
	require.NoError(t, p.Alive())
	if runtime.GOOS == "linux" {
		cpu, err := p.CPU()
		require.NoError(t, err)
		require.Positive(t, cpu)
		require.Less(t, cpu, time.Minute)
	}
	p.Kill()
	require.ErrorContains(t, p.Alive(), "self ended")

	p, err = start(t.Context(), "self", Program{Path: path}, own)
	require.NoError(t, err)
	require.NoError(t, p.Terminate(t.Context()))

	// A context that ends takes the process along.
	ctx, cancel := context.WithCancel(t.Context())
	p, err = start(ctx, "self", Program{Path: path}, own)
	require.NoError(t, err)
	cancel()
	select {
	case <-p.Gone:
	case <-time.After(10 * time.Second):
		t.Error("still runs")
		p.Kill()
	}

	// One that ends at once is an error with its words.
	_, err = start(t.Context(), "self", Program{Path: path}, func(string) []string { return []string{"none"} })
	require.ErrorContains(t, err, "no disk")
	require.ErrorContains(t, err, "exit status 3")
	_, err = start(t.Context(), "nobody", Program{Path: path + ".none"}, own)
	require.ErrorContains(t, err, "start nobody")
}

func TestParseList(t *testing.T) {
	require.Equal(t, []int{0, 1, 2, 3, 8, 10, 11}, parseList("0-3,8,10-11\n"))
	require.Empty(t, parseList("\n"))
	require.Equal(t, []int{4}, parseList("a-b,4"))
}

// A program gets as many cores as are asked for.
func TestPinned(t *testing.T) {
	order, err := spread()
	require.NoError(t, err)
	require.Len(t, order, runtime.NumCPU())
	program := Program{Path: "grep"}
	_, err = pinned(program.On(len(order) + 1))
	require.ErrorContains(t, err, "cores are asked for")
	command, err := pinned(program)
	require.NoError(t, err)
	require.Equal(t, []string{"grep"}, command)
	command, err = pinned(program.On(1))
	require.NoError(t, err)
	out, err := exec.Command(command[0], append(command[1:], "^Cpus_allowed_list:", "/proc/self/status")...).Output()
	require.NoError(t, err)
	require.Regexp(t, `^Cpus_allowed_list:\s*\d+\n$`, string(out))
}
