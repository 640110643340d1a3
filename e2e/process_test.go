package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// process is a server that was started as a program of its own.
type process struct{ *programs.Process }

// check fails a test in which promwarp failed as a program, or wrote a second status to an answer: some
// of it had gone out.
func (p *process) check(t *testing.T) {
	if failure := p.Log.Failure(); p.Name == "promwarp" && failure != "" {
		t.Errorf("promwarp printed:\n%s", failure)
	}
	if p.Name == "promwarp" && strings.Contains(p.Log.String(), "superfluous") {
		t.Errorf("promwarp answered twice:\n%s", p.Log.Tail())
	}
}

// start runs a program that will serve HTTP on addr.
func start(name, addr, bin string, args ...string) (*process, error) {
	p, err := programs.Start(name, addr, bin, args...)
	return &process{p}, err
}

// signal sends s.
func (p *process) signal(s os.Signal) { _ = p.Cmd.Process.Signal(s) }

// wait waits for the process to end and returns its exit code.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.Gone:
	case <-time.After(limit):
		t.Fatalf("%s still runs after %s:\n%s", p.Name, limit, p.Log.Tail())
	}
	return p.Cmd.ProcessState.ExitCode()
}

// runServer starts a program, waits until it is ready and ends it with the test.
func runServer(t *testing.T, name, addr, bin string, args ...string) *process {
	t.Helper()
	p, err := start(name, addr, bin, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		p.check(t)
		if t.Failed() {
			t.Logf("the end of %s's output:\n%s", p.Name, p.Log.Tail())
		}
	})
	require.NoError(t, p.WaitReady())
	return p
}

// mustFreeAddr is a loopback address that was free a moment ago.
func mustFreeAddr(t *testing.T) string {
	t.Helper()
	addr, err := programs.FreeAddr()
	require.NoError(t, err)
	return addr
}

// prometheus starts a Prometheus.
func prometheus(t *testing.T, addr, dataDir, config string) *process {
	t.Helper()
	return runServer(t, "Prometheus", addr, prometheusBin, programs.PrometheusArgs(addr, dataDir, writeConfig(t, config))...)
}

func writeConfig(t *testing.T, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}

// promwarp starts a promwarp in front of the server at upstream.
func promwarp(t *testing.T, upstream string) *process {
	t.Helper()
	addr := mustFreeAddr(t)
	return runServer(t, "promwarp", addr, promwarpBin, promwarpArgs(addr, upstream)...)
}

func promwarpArgs(addr, upstream string) []string {
	return []string{"serve", "--upstream.url=" + upstream, "--web.listen-address=" + addr}
}

// The programs under test, built by TestMain.
var prometheusBin, promwarpBin string

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.list"); f != nil && f.Value.String() != "" {
		os.Exit(m.Run())
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if prometheusBin = os.Getenv("E2E_PROMETHEUS"); prometheusBin == "" {
		if prometheusBin, err = programs.FromPrometheus("prometheus"); err != nil {
			return 1, fmt.Errorf("build Prometheus: %w", err)
		}
	}
	if promwarpBin = os.Getenv("E2E_PROMWARP"); promwarpBin == "" {
		dir, err := os.MkdirTemp("", "promwarp-e2e-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		promwarpBin = filepath.Join(dir, "promwarp")
		if err := programs.Build("..", "-ldflags=-w", "-o", promwarpBin, "./cmd/promwarp"); err != nil {
			return 1, fmt.Errorf("build promwarp: %w", err)
		}
	}
	defer stopFixture()
	return m.Run(), nil
}

// fixture is the upstream that several tests share: a Prometheus with a day of
// data up to now.
type fixture struct {
	*process
	dir   string // its data directory is dir/data
	stats dataset.Stats
	grid  grid
}

// grid is what a dashboard over the whole data set asks for.
type grid struct {
	start, end time.Time
	step       time.Duration
}

var (
	fixtureMu     sync.Mutex
	sharedFixture *fixture
	errFixture    error
)

// upstream returns the shared fixture, started by the first test that asks.
func upstream(t *testing.T) *fixture {
	t.Helper()
	fixtureMu.Lock()
	defer fixtureMu.Unlock()
	if sharedFixture == nil && errFixture == nil {
		sharedFixture, errFixture = startFixture()
		if errFixture == nil {
			s := sharedFixture.stats
			t.Logf("data set: %d series, %d samples, until %d", s.Series, s.Samples, sharedFixture.grid.end.Unix())
		}
	}
	require.NoError(t, errFixture)
	return sharedFixture
}

func startFixture() (f *fixture, err error) {
	f = &fixture{}
	if f.dir, err = os.MkdirTemp("", "promwarp-e2e-data-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(f.dir))
		}
	}()
	series, err := envInt("E2E_SERIES", 3400)
	if err != nil {
		return nil, err
	}
	unix, err := envInt("E2E_END", time.Now().Truncate(time.Minute).Unix())
	if err != nil {
		return nil, err
	}
	end := time.Unix(unix, 0)
	f.grid = grid{start: end.Add(-24 * time.Hour), end: end, step: time.Minute}
	o := dataset.Options{Start: f.grid.start.UnixMilli(), End: end.UnixMilli(), Series: int(series), Seed: 1}
	p, stats, err := programs.StartFilled(context.Background(), prometheusBin, f.dir, o)
	if err != nil {
		return nil, err
	}
	f.process, f.stats = &process{p}, stats
	return f, nil
}

func stopFixture() {
	if sharedFixture != nil {
		sharedFixture.Kill()
		_ = os.RemoveAll(sharedFixture.dir)
	}
}

func (f *fixture) dataDir() string { return filepath.Join(f.dir, "data") }

// envInt reads a number from the environment.
func envInt(name string, otherwise int64) (int64, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("environment variable %s: %w", name, err)
	}
	return n, nil
}

// smallData writes hours of a small data set that ends at end, and returns the
// data directory.
func smallData(t *testing.T, end time.Time, hours int) string {
	t.Helper()
	dir := t.TempDir()
	o := dataset.Options{Start: end.Add(-time.Duration(hours) * time.Hour).UnixMilli(), End: end.UnixMilli(), Series: 500, Seed: 2}
	_, err := dataset.WriteBlocks(context.Background(), dir, o)
	require.NoError(t, err)
	return dir
}

// client is like a dashboard's, but for compression: it costs the client and
// both servers the same.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}, Timeout: 2 * time.Minute}

// answer is what a server's query API said.
type answer struct {
	code int
	body []byte
}

// rangeForm asks for q on the grid.
func (g grid) rangeForm(q string) url.Values {
	return url.Values{"query": {q}, "start": {seconds(g.start)}, "end": {seconds(g.end)}, "step": {strconv.FormatFloat(g.step.Seconds(), 'f', -1, 64)}}
}

// instantForm asks for q at t.
func instantForm(q string, t time.Time) url.Values {
	return url.Values{"query": {q}, "time": {seconds(t)}}
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// post sends a form to path below base.
func post(ctx context.Context, base, path string, form url.Values) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, body}, err
}

// ask is post for a test in which the server must answer.
func ask(t *testing.T, base, path string, form url.Values) answer {
	t.Helper()
	a, err := post(t.Context(), base, path, form)
	require.NoError(t, err, "%s%s %s", base, path, form.Get("query"))
	return a
}

// response is an answer of the query API.
type response struct {
	Status    string   `json:"status"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
	Infos     []string `json:"infos"`
	Data      struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

func (a answer) parse() (response, error) {
	var r response
	if err := json.Unmarshal(a.body, &r); err != nil {
		return r, fmt.Errorf("answer with status %d is not the API's: %w: %.200s", a.code, err, a.body)
	}
	return r, nil
}

// series is one series of a matrix or a vector.
type series struct {
	Metric     map[string]string `json:"metric"`
	Values     []point           `json:"values"`
	Value      point             `json:"value"`
	Histogram  json.RawMessage   `json:"histogram"`
	Histograms json.RawMessage   `json:"histograms"`
}

func (s *series) String() string {
	b, _ := json.Marshal(s.Metric) // sorts the keys
	return string(b)
}

// point is a timestamp and a value, as text.
type point struct{ t, v string }

// UnmarshalJSON implements json.Unmarshaler for [seconds,"value"].
func (p *point) UnmarshalJSON(b []byte) error {
	t, v, ok := strings.Cut(strings.Trim(string(b), "[]"), ",")
	if !ok {
		return fmt.Errorf("not a point: %s", b)
	}
	p.t, p.v = t, strings.Trim(v, `"`)
	return nil
}
