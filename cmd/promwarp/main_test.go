package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/workload"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/selection"
)

func TestExecute(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitUsage, execute(context.Background(), []string{"query", "--bogus"}, &stderr))
	require.Contains(t, stderr.String(), "--bogus")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve"}, &stderr))
	require.Contains(t, stderr.String(), "nothing to read from")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve", "--cache.host-bytes=much"}, &stderr))
	require.Contains(t, stderr.String(), "--cache.host-bytes")
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	stderr.Reset()
	addr := taken.Listener.Addr().String()
	require.Equal(t, exitError, execute(context.Background(), []string{"serve", "--web.listen-address=" + addr, "--upstream.url=http://127.0.0.1:9"}, &stderr))
	require.Contains(t, stderr.String(), addr)
	require.Contains(t, stderr.String(), "in use")
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"now": now, "-24h": now.AddDate(0, 0, -1), "now-1d": now.AddDate(0, 0, -1), "now+1h30m": now.Add(90 * time.Minute),
		"2026-01-02T03:04:05Z": now, fmt.Sprint(now.Unix()): now, "1.5": time.UnixMilli(1500).UTC(),
	} {
		got, err := parseWhen(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), text)
	}
	for _, text := range []string{"", "noon", "24h", "now24h", "-", "NaN", "1e300"} {
		_, err := parseWhen(text, now)
		require.Error(t, err, text)
	}
	require.Equal(t, 5*time.Minute+45*time.Second, defaultStep(now.Add(-24*time.Hour), now))
	require.Equal(t, time.Second, defaultStep(now, now))
}

// TestGroups: help names each command once.
func TestGroups(t *testing.T) {
	var named, declared []string
	for _, g := range groups {
		named = append(named, g.Commands...)
	}
	app, _ := application()
	for _, c := range app.Model().FlattenedCommands() {
		if c.FullCommand != "help" {
			declared = append(declared, c.FullCommand)
		}
	}
	require.ElementsMatch(t, declared, named)
}

func TestDevicesTable(t *testing.T) {
	h := cudatest.Control(t)
	// A device retains its context once: the second call is the
	// second device's.
	h.Configure("devices=2,memory=1073741824,cuDevicePrimaryCtxRetain:2=46")
	var out bytes.Buffer
	require.NoError(t, runDevices(cudatest.Library(t), "table", &out))
	require.Regexp(t, `^driver +(\S+, )?CUDA 12.8

device 0 +promwarp host device 0, PCI 0000:00:00.0
compute capability +9.0, 1 multiprocessors
memory +1.0 GiB
memory free +1.0 GiB
copy to device +[\d.]+ GB/s
copy from device +[\d.]+ GB/s
launch and wait +\d+ µs
start +\d+ ms to open, \d+ ms to load the kernels
usable +yes; its sums are right

device 1 +promwarp host device 1, PCI 0000:01:00.0
compute capability +9.0, 1 multiprocessors
memory +1.0 GiB
usable +no: .*another process has it to itself
$`, out.String())
}

func TestDevicesJSON(t *testing.T) {
	cudatest.Control(t)
	var out bytes.Buffer
	require.NoError(t, runDevices(cudatest.Library(t), "json", &out))
	var inv device.Inventory
	require.NoError(t, json.Unmarshal(out.Bytes(), &inv))
	require.Equal(t, "12.8", inv.CUDA)
	require.Len(t, inv.Devices, 1)
	require.True(t, inv.Devices[0].Usable)
	require.Positive(t, inv.Devices[0].ToDevice)
}

func TestDevicesWithoutDriver(t *testing.T) {
	for _, output := range []string{"table", "json"} {
		var out bytes.Buffer
		require.ErrorIs(t, runDevices("libnothing.so.1", output, &out), errNoDevice)
		require.Contains(t, out.String(), "no NVIDIA driver: libnothing.so.1: cannot open shared object file")
	}
}

// TestVersion: the version says whether a GPU is usable, which of several, and why none is.
func TestVersion(t *testing.T) {
	h := cudatest.Control(t)
	// A device retains its context once: the second call is the second device's.
	h.Configure("devices=2,memory=1073741824,cuDevicePrimaryCtxRetain:2=46")
	var out bytes.Buffer
	require.NoError(t, writeVersion(&out, cudatest.Library(t)))
	require.Regexp(t, `^promwarp, version \S+
  revision:  \S+
  date:      \S+
  go:        go1\.\S+, \w+/\w+
  GPU:       usable, 1 of 2: promwarp host device 0
$`, out.String())
	h.Configure("devices=1,memory=1073741824,cuDevicePrimaryCtxRetain:1=46")
	require.Regexp(t, `^not usable: device 0: .*another process has it to itself$`, usableDevices(device.TakeInventory(cudatest.Library(t))))
	require.Contains(t, usableDevices(device.TakeInventory("libnothing.so.1")), "not usable: no NVIDIA driver: libnothing.so.1: ")
}

func TestDevicesCommand(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitError, execute(t.Context(), []string{"devices", "--gpu.library=libnothing.so.1"}, &stderr))
	require.Equal(t, "promwarp devices: no GPU is usable\n", stderr.String())
	require.Equal(t, exitUsage, execute(t.Context(), []string{"devices", "--format=xml"}, &stderr))
}

func TestReport(t *testing.T) {
	rows := []compare.Row{
		{Query: "sum(\n  m)", Prometheus: 40, First: 10, Repeated: 1, Verdict: compare.Same},
		{Query: "m", Prometheus: 10, First: 10, Repeated: 1, Verdict: compare.Different, Detail: "a bit"},
		{Query: "n", Verdict: compare.NotCompared, Detail: "Prometheus: timeout"},
		{Query: "o", Prometheus: 10, First: 5, Repeated: 0.1, Verdict: compare.Same, Remembered: true},
	}
	var b bytes.Buffer
	require.NoError(t, reportComparison(&b, rows, 80))
	require.Equal(t, `PROMETHEUS  FIRST  REPEATED  REMEMBERED  SPEED-UP     ANSWER        QUERY
40.0        10.0   1.0       -           4.0×, 40.0×  same          sum( m)
10.0        10.0   1.0       -           1.0×, 10.0×  DIFFERENT     m
-           -      -         -           -, -         not compared  n
10.0        5.0    -         0.1         2.0×, -      same          o

DIFFERENT: m
  a bit

not compared: n
  Prometheus: timeout

2 of 4 answers are the same to the bit, 1 differ, 1 could not be compared.
promwarp is 2.8× as fast at first and 40.0× when asked again (geometric means).
Remembered results answer 1 of them when asked again: that time is no speed-up of evaluating. --cache.results-bytes=0 remembers none.
`, b.String())
}

// TestExitOfCompare: the exit code tells answers that agree, that differ, and that there was none to compare.
func TestExitOfCompare(t *testing.T) {
	const one, other, none = `{"resultType":"matrix","result":[{"metric":{},"values":[[0,"1"]]}]}`, `{"resultType":"matrix","result":[{"metric":{},"values":[[0,"2"]]}]}`, `{"resultType":"matrix","result":[]}`
	serve := func(data string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"status":"success","data":`+data+`}`)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	queries := filepath.Join(t.TempDir(), "queries.txt")
	require.NoError(t, os.WriteFile(queries, []byte("sum(m)\n"), 0o600))
	for name, c := range map[string]struct {
		prometheus, promwarp string
		code                 int
		says                 string
	}{
		"the same":             {serve(one), serve(one), exitOK, ""},
		"different":            {serve(one), serve(other), exitError, "answers differ"},
		"one has no samples":   {serve(one), serve(none), exitError, "answers differ"},
		"no samples":           {serve(none), serve(none), exitEmpty, "nothing could be compared"},
		"nothing is answering": {"http://127.0.0.1:1", serve(one), exitError, "no answer from http://127.0.0.1:1"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, c.code, execute(t.Context(), []string{"compare", "--upstream=" + c.prometheus, "--url=" + c.promwarp, queries}, &stderr), "%s: %s", name, &stderr)
		require.Contains(t, stderr.String(), c.says, name)
	}
}

// TestComparePage: the page has the summary and all rows, without anything from elsewhere.
func TestComparePage(t *testing.T) {
	o := compareOptions{files: []string{"d.json", ""}, upstream: "http://p:9090", notes: []string{"d.json: $job is <a>"}, page: filepath.Join(t.TempDir(), "page.html")}
	rows := []compare.Row{
		{Query: "sum(m) < 1", From: "Row / Panel", Prometheus: 40, First: 10, Repeated: 1, Verdict: compare.Same, Remembered: true},
		{Query: "m", Prometheus: 10, First: 10, Repeated: 1, Verdict: compare.Different, Detail: `value 1 instead of 2 of {a="b"}`, Hint: "try"},
		{Query: "n", Verdict: compare.NotCompared, Detail: "Prometheus: timeout"},
	}
	require.NoError(t, o.writePage(rows))
	page, err := os.ReadFile(o.page)
	require.NoError(t, err)
	text := regexp.MustCompile(`on [A-Z][a-z]{2}, .* UTC`).ReplaceAllString(string(page), "on DATE")
	const golden = "testdata/compare.html"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
	for _, of := range []string{"<script", "src=", "href=", "url(", "@import"} {
		require.NotContains(t, text, of)
	}
	var usage config.UsageError
	o.page = t.TempDir()
	require.ErrorAs(t, o.writePage(rows), &usage)
	o.page = ""
	require.NoError(t, o.writePage(rows))
}

// TestCompareRange: a dashboard's own range is asked for, at an end where samples no longer change.
func TestCompareRange(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		o          compareOptions
		own        workload.Range
		start, end string
		note       string
	}{
		"no dashboard":     {compareOptions{}, workload.Range{}, "2026-01-01T12:00:00Z", "2026-01-02T11:50:00Z", ""},
		"its own":          {compareOptions{}, workload.Range{From: "now-6h", To: "now"}, "2026-01-02T05:50:00Z", "2026-01-02T11:50:00Z", "its time range is now-6h to now, asked for 10m0s earlier, as the newest samples may differ"},
		"a past one":       {compareOptions{}, workload.Range{From: "2025-01-01T00:00:00.000Z", To: "2025-01-02T00:00:00.000Z"}, "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "its time range is 2025-01-01T00:00:00.000Z to 2025-01-02T00:00:00.000Z"},
		"the command's":    {compareOptions{start: "-2h"}, workload.Range{From: "now-6h", To: "now"}, "2026-01-02T10:00:00Z", "2026-01-02T11:50:00Z", ""},
		"of calendar days": {compareOptions{}, workload.Range{From: "now/d", To: "now/d"}, "2026-01-01T12:00:00Z", "2026-01-02T11:50:00Z", "its time range now/d to now/d is replaced by the last day, as promwarp compare cannot tell it; --start and --end set one"},
	} {
		t.Run(name, func(t *testing.T) {
			over, note, err := c.o.over(c.own, now)
			require.NoError(t, err)
			require.Equal(t, []string{c.start, c.end, c.note}, []string{over.Start.UTC().Format(time.RFC3339), over.End.UTC().Format(time.RFC3339), note})
		})
	}
	_, _, err := (&compareOptions{end: "noon"}).over(workload.Range{From: "now-6h", To: "now"}, now)
	require.ErrorContains(t, err, "--end")
}

// TestQuick: where answers are empty, or there was nothing to save, the summary says so.
func TestQuick(t *testing.T) {
	empty := func(context.Context) (*compare.Answer, error) {
		return &compare.Answer{Type: "matrix", Took: time.Millisecond}, nil
	}
	one := func(context.Context) (*compare.Answer, error) {
		return &compare.Answer{Type: "scalar", Series: make([]compare.Series, 1), Took: time.Millisecond}, nil
	}
	row, err := compare.Measure(t.Context(), empty, empty, compare.Rounds{Prometheus: 1, Repeated: 1})
	require.NoError(t, err)
	require.True(t, row.Empty)
	full, err := compare.Measure(t.Context(), one, one, compare.Rounds{Prometheus: 1, Repeated: 1})
	require.NoError(t, err)
	require.False(t, full.Empty)
	var b bytes.Buffer
	summarizeComparison(&b, []compare.Row{row, {Prometheus: 1, First: 20, Repeated: 0.5, Verdict: compare.Same}}, false)
	require.Equal(t, `
2 of 2 answers are the same to the bit.
1 of them are empty, which says little: --start and --end set the time that is asked for.
promwarp is 0.2× as fast at first and 1.4× when asked again (geometric means).
Prometheus takes less than 10 ms for each of them: promwarp is for queries that take longer.
`, b.String())
}

// leavesNothing checks at the end of the test that no goroutine and no
// temporary file is left.
func leavesNothing(t *testing.T) {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, ignore)
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, "temporary files")
	})
}

func TestDemoOnce(t *testing.T) {
	leavesNothing(t)
	var stdout, stderr testlog.Log
	data := filepath.Join(t.TempDir(), "data")
	o := demoOptions{once: true, series: 300, hours: 3, listen: "127.0.0.1:0", data: data}
	require.NoError(t, runDemo(t.Context(), o, &stdout, &stderr), stdout.String())
	require.Equal(t, len(demoQueries), strings.Count(stdout.String(), "  same  "), stdout.String())
	require.NotContains(t, stdout.String(), "DIFFERENT")
	require.Contains(t, stderr.String(), "generated 2")
	t.Logf("\n%s", stdout.String())

	// The data is kept and used again.
	stdout, stderr = testlog.Log{}, testlog.Log{}
	require.NoError(t, runDemo(t.Context(), o, &stdout, &stderr), stdout.String())
	require.Equal(t, len(demoQueries), strings.Count(stdout.String(), "  same  "), stdout.String())
	require.NotContains(t, stderr.String(), "generated")
}

func TestDemoServes(t *testing.T) {
	leavesNothing(t)
	var stdout, stderr testlog.Log
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- runDemo(ctx, demoOptions{series: 68, hours: 1, listen: "127.0.0.1:0"}, &stdout, &stderr)
	}()
	url := regexp.MustCompile(`source with the URL (http://\S+)`)
	require.Eventually(t, func() bool { return url.MatchString(stdout.String()) }, time.Minute, 20*time.Millisecond)
	base := url.FindStringSubmatch(stdout.String())[1]
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) string {
		resp, err := client.Get(base + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
		return string(body)
	}
	// Samples newer than the blocks arrive.
	require.Eventually(t, func() bool {
		return strings.Contains(get("/api/v1/query?query=count(time()-timestamp(app_build_info)<40)"), `"1"`)
	}, 30*time.Second, 200*time.Millisecond)
	// What remote read does not tell comes from the demo's Prometheus.
	require.Contains(t, get("/api/v1/label/__name__/values"), "node_memory_bytes")
	require.Contains(t, get("/api/v1/metadata"), "success")
	require.Contains(t, get("/api/v1/rules"), "success")
	cancel()
	require.NoError(t, <-done)
}

func TestDemoErrors(t *testing.T) {
	leavesNothing(t)
	run := func(ctx context.Context, o demoOptions) error {
		return runDemo(ctx, o, io.Discard, io.Discard)
	}
	var usage config.UsageError
	require.ErrorAs(t, run(t.Context(), demoOptions{hours: 1}), &usage)
	require.ErrorAs(t, run(t.Context(), demoOptions{series: 1}), &usage)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	err = run(t.Context(), demoOptions{series: 1, hours: 1, listen: l.Addr().String()})
	require.ErrorContains(t, err, "in use")

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600))
	err = run(t.Context(), demoOptions{series: 1, hours: 1, listen: "127.0.0.1:0", data: dir})
	require.ErrorAs(t, err, &usage)
	require.ErrorContains(t, err, "not empty")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, run(ctx, demoOptions{series: 1, hours: 1, listen: "127.0.0.1:0"}), "interrupted")
}

// stuck is an upstream that answers no request before that ends.
type stuck struct{ began chan struct{} }

// Fetch implements the engine's storage.
func (s stuck) Fetch(ctx context.Context, _, _ int64, _ []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	s.began <- struct{}{}
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// TestInterruptedQuery: Ctrl-C ends the query on the server.
func TestInterruptedQuery(t *testing.T) {
	set := demoSettings("127.0.0.1:0", "http://127.0.0.1:9")
	set.GPU.Mode = config.GPUOff
	upstream := stuck{make(chan struct{}, 1)}
	srv, err := server.New(server.Config{Settings: set, Upstream: upstream})
	require.NoError(t, err)
	serving, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(serving) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	underWay := func() string {
		resp, err := http.Get(srv.URL() + "/api/v1/status/queries")
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	for _, format := range []string{"table", "json", "csv"} {
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			<-upstream.began
			if strings.Contains(underWay(), `"query":"m"`) {
				interrupt()
			}
		}()
		var stdout, stderr bytes.Buffer
		o := queryOptions{format: format}
		o.server.URL, o.expr, o.at, o.executor = srv.URL(), "m", "600", "auto"
		require.EqualError(t, runQuery(ctx, o, &stdout, &stderr), "interrupted", format)
		require.Empty(t, stdout.String()+stderr.String())
		require.Eventually(t, func() bool { return strings.Contains(underWay(), `"data":[]`) }, 10*time.Second, 10*time.Millisecond, format)
	}
}

var update = flag.Bool("update", false, "write what scripts and pages expect anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"promwarp": main})
}

// TestScripts runs the commands in testdata/scripts, each against a promwarp of its own at $URL, which
// reads from the Prometheus at $PROMETHEUS, whose samples are also in the data directory $DATA. $STALLED never
// answers, $LOCKED wants a password,
// $WRONG changes a value, $PAGE is a server of another kind.
func TestScripts(t *testing.T) {
	data := testfiles.DataDirectory(t)
	db, err := tsdb.Open(testfiles.DataDirectory(t), promslog.NewNopLogger(), nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	prometheus, end := startDemoPrometheus(l, db, promslog.NewNopLogger())
	t.Cleanup(end)
	prometheusURL := "http://" + l.Addr().String()

	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	stop := make(chan struct{})
	stalled := serve(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	})
	t.Cleanup(func() { close(stop) })
	locked := serve(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "sesame" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		prometheus.ServeHTTP(w, r)
	})
	wrong := serve(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		prometheus.ServeHTTP(answer, r)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(`[60,"3"]`), []byte(`[60,"4"]`)))
	})
	page := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) })

	testscript.Run(t, testscript.Params{
		Dir: "testdata/scripts", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			set := demoSettings("127.0.0.1:0", prometheusURL)
			set.Web.EnableAdminAPI = true
			set.GPU.Mode = config.GPUOff
			srv, err := server.New(server.Config{Settings: set})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- srv.Run(ctx) }()
			e.Defer(func() {
				cancel()
				require.NoError(t, <-ended)
			})
			for name, value := range map[string]string{
				"DATA": data, "URL": srv.URL(), "PROMETHEUS": prometheusURL, "STALLED": stalled, "LOCKED": locked, "PAGE": page, "WRONG": wrong,
				"PROMWARP_URL": srv.URL(), "TZ": "UTC",
			} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"masked": masked},
	})
}

var (
	maskedTime = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`)
	maskedURL  = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
)

// masked writes the last output to a file, with times and addresses masked.
func masked(ts *testscript.TestScript, _ bool, args []string) {
	text := maskedTime.ReplaceAllString(ts.ReadFile("stdout"), "T")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(maskedURL.ReplaceAllString(text, "URL")), 0o666))
}
