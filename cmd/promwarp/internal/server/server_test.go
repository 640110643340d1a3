package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/golang/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/internal/refcount"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/selection"
)

// counting is an upstream with one series, up, that can be made to wait.
type counting struct {
	wait chan struct{} // when set, fetches wait for it to be closed
	at   chan struct{} // gets one element for each fetch
}

func (c counting) Fetch(ctx context.Context, mint, maxt int64, _ []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	if c.at != nil {
		c.at <- struct{}{}
	}
	if c.wait != nil {
		select {
		case <-c.wait:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "up"))
	if err := b.Floats([]int64{1000}, []float64{1}); err != nil {
		return nil, nil, err
	}
	s, err := b.Finish()
	return s, nil, err
}

// browser makes requests that leave no connection behind.
var browser = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func fetch(t *testing.T, method, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	resp, err := browser.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// answers asks a server, which must answer with all that is wanted, and returns the answer.
func answers(t *testing.T, s *Server, path string, wanted ...string) string {
	t.Helper()
	code, body := fetch(t, "GET", s.URL()+path)
	require.Equal(t, 200, code, body)
	for _, want := range wanted {
		require.Contains(t, body, want)
	}
	return body
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quickSettings are settings for a test's server.
func quickSettings() config.Settings {
	s := config.Default()
	s.Web.ListenAddress = config.List{"127.0.0.1:0"}
	s.Cache.HostBytes = 1 << 20
	s.Web.EnableLifecycle = true
	return s
}

// runServer runs a server until stop is called, which returns what Run did, or
// the test ends.
func runServer(t *testing.T, cfg Config) (s *Server, stop func() error) {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.ready() == nil }, 10*time.Second, time.Millisecond)
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { require.NoError(t, stop()) })
	return s, stop
}

func TestServe(t *testing.T) {
	var log testlog.Log
	set := quickSettings()
	set.Web.ListenAddress = config.List{"127.0.0.1:0", "127.0.0.1:0"}
	s, stop := runServer(t, Config{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, l := range s.listeners {
		code, body := fetch(t, "GET", "http://"+l.Addr().String()+"/api/v1/query?query=up&time=1")
		require.Equal(t, 200, code)
		require.Contains(t, body, `"value":[1,"1"]`)
	}
	answers(t, s, "/metrics", "promwarp_config_last_reload_successful 1", "promwarp_http_request_duration_seconds", "go_goroutines",
		"promwarp_build_info", "prometheus_engine_queries", "prometheus_remote_read_handler_queries")
	answers(t, s, "/api/v1/status/flags", `"query.timeout":"2m"`)
	code, _ := fetch(t, "POST", s.URL()+"/-/reload")
	require.Equal(t, 404, code)
	require.NoError(t, stop())
	require.Contains(t, log.String(), s.URL()+"/api/v1/read")
	require.Contains(t, log.String(), "Grafana")
}

func TestDraining(t *testing.T) {
	up := counting{wait: make(chan struct{}), at: make(chan struct{}, 1)}
	s, stop := runServer(t, Config{Settings: quickSettings(), Upstream: up})
	code, _ := fetch(t, "GET", s.URL()+"/-/ready")
	require.Equal(t, 200, code)

	answer := make(chan string, 1)
	go func() {
		_, body := fetch(t, "GET", s.URL()+"/query?query=up&time=1")
		answer <- body
	}()
	<-up.at
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	require.Eventually(t, func() bool { return s.ready() != nil }, 10*time.Second, time.Millisecond)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/-/ready", nil))
	require.Equal(t, 503, w.Code)
	require.Contains(t, w.Body.String(), "shutting down")
	select {
	case <-stopped:
		t.Fatal("stopped before the request was answered")
	case <-time.After(50 * time.Millisecond):
	}
	close(up.wait)
	require.Contains(t, <-answer, `"value":[1,"1"]`)
	require.NoError(t, <-stopped)
}

func TestDrainingIsBounded(t *testing.T) {
	var log testlog.Log
	up := counting{wait: make(chan struct{}), at: make(chan struct{}, 1)}
	set := quickSettings()
	set.Web.ShutdownTimeout = model.Duration(50 * time.Millisecond)
	s, stop := runServer(t, Config{Settings: set, Upstream: up, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	failed := make(chan error, 1)
	go func() {
		resp, err := browser.Get(s.URL() + "/query?query=up&time=1")
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-up.at
	require.NoError(t, stop())
	require.Error(t, <-failed)
	require.Contains(t, log.String(), "web.shutdown-timeout")
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	set := quickSettings()
	set.Web.ListenAddress = config.List{"127.0.0.1:0", l.Addr().String()}
	_, err = New(Config{Settings: set, Upstream: counting{}})
	require.ErrorContains(t, err, l.Addr().String())
	require.ErrorContains(t, err, "in use")
	require.False(t, errors.As(err, new(config.UsageError)))
	set.Web.ListenAddress = config.List{"nonsense"}
	_, err = New(Config{Settings: set, Upstream: counting{}})
	require.ErrorAs(t, err, new(config.UsageError))
}

func TestBadSources(t *testing.T) {
	set := quickSettings()
	set.TSDB.Path = t.TempDir()
	_, err := New(Config{Settings: set})
	require.ErrorContains(t, err, "not a Prometheus data directory")
	require.ErrorAs(t, err, new(config.UsageError))

	set = quickSettings()
	set.Upstream.URL = "http://p"
	set.Web.Config.File = testfiles.Config(t, "tls: yes\n")
	_, err = New(Config{Settings: set})
	require.ErrorContains(t, err, set.Web.Config.File)
}

// TestServeUpstream puts one promwarp behind another.
func TestServeUpstream(t *testing.T) {
	set := quickSettings()
	set.TSDB.Path = testfiles.DataDirectory(t)
	first, stopFirst := runServer(t, Config{Settings: set})
	set = quickSettings()
	set.Upstream.URL = first.URL()
	second, stopSecond := runServer(t, Config{Settings: set})
	answers(t, second, "/api/v1/query_range?query=sum(rate(m[5m]))&start=600&end=1200&step=600", `[600,"0.05"]`)
	answers(t, second, "/api/v1/labels", `["__name__","i"]`)
	require.NoError(t, stopFirst())
	code, body := fetch(t, "GET", second.URL()+"/api/v1/labels")
	require.Equal(t, 502, code)
	require.Contains(t, body, first.URL())
	require.NoError(t, stopSecond())
}

// inUse reports whether s has a user.
func inUse(s *refcount.Count) bool {
	if !s.Hold() {
		return false
	}
	s.Release()
	return true
}

// requireUnused waits until s has no users: a request gives up its generation after its answer was sent.
func requireUnused(t *testing.T, s *refcount.Count) {
	t.Helper()
	require.Eventually(t, func() bool { return !inUse(s) }, 10*time.Second, time.Millisecond)
}

func TestReload(t *testing.T) {
	one, two := testfiles.DataDirectory(t), testfiles.DataDirectory(t)
	file := testfiles.Config(t, "")
	put := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o666)) }
	const rest = "web: {listen_address: '127.0.0.1:0', enable_lifecycle: true}\ncache: {host_bytes: 1MiB}\n"
	put(rest + "tsdb: {path: " + one + "}\n")
	f := givenFlags(t, "--config.file="+file)
	set, err := f.Load()
	require.NoError(t, err)
	var log testlog.Log
	s, _ := runServer(t, Config{Settings: set, Reload: f.Load, Logger: slog.New(slog.NewTextHandler(&log, nil))})

	ask := func() { answers(t, s, "/query?query=sum(m)&time=600", `[600,"30"]`) }
	reload := func(want int) string {
		code, body := fetch(t, "POST", s.URL()+"/-/reload")
		require.Equal(t, want, code, body)
		return body
	}
	ask()
	first := s.current.Load()

	// Nothing changed: the cache and the engine stay.
	reload(200)
	ask()
	g := s.current.Load()
	require.NotSame(t, first, g)
	require.Same(t, first.reads.Stores[0], g.reads.Stores[0])
	require.Same(t, first.eval, g.eval)
	requireUnused(t, first.Count)

	// Limits changed: the cache stays.
	put(rest + "tsdb: {path: " + one + "}\nquery: {max_samples: 5}\n")
	reload(200)
	require.Same(t, first.reads.Stores[0], s.current.Load().reads.Stores[0])
	code, body := fetch(t, "GET", s.URL()+"/query?query=m&start=0&end=3000&step=60")
	require.Equal(t, 422, code)
	require.Contains(t, body, "too many samples")
	requireUnused(t, first.eval.Count)

	// The source changed: so does the cache.
	put(rest + "tsdb: {path: " + two + "}\n")
	reload(200)
	ask()
	require.NotSame(t, first.reads.Stores[0], s.current.Load().reads.Stores[0])
	requireUnused(t, first.reads.Stores[0].Count)

	// A bad file changes nothing.
	good := s.current.Load()
	for text, want := range map[string]string{
		"tsdb: {pth: x}\n":             `unknown key`,
		"tsdb: {path: /none/at/all}\n": "/none/at/all",
		"log: {level: info}\n":         "nothing to read from",
		"upstream: {url: 'http://p'}\nremote_read: [{url: 'http://p', basic_auth: {username: x, password_file: p}, authorization: {credentials: x}}]\n": "at most one",
	} {
		put(rest + text)
		require.Contains(t, reload(500), want)
		require.Same(t, good, s.current.Load())
		ask()
		answers(t, s, "/metrics", "promwarp_config_last_reload_successful 0")
	}
	require.Contains(t, log.String(), "the running one stays")

	// What takes a restart is said, and SIGHUP reloads too.
	put("web: {listen_address: '127.0.0.1:1'}\ncache: {host_bytes: 1MiB}\ntsdb: {path: " + two + "}\n")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "after a restart") }, 10*time.Second, time.Millisecond)
	require.Contains(t, log.String(), "web.listen-address")
	ask()
	require.Eventually(t, func() bool { // it is set behind the line that was waited for
		_, metrics := fetch(t, "GET", s.URL()+"/metrics")
		return strings.Contains(metrics, "promwarp_config_last_reload_successful 1")
	}, 10*time.Second, 10*time.Millisecond)
}

// TestReloadUnderWay reloads while a query runs: it finishes on what it began.
func TestReloadUnderWay(t *testing.T) {
	up := counting{wait: make(chan struct{}), at: make(chan struct{}, 1)}
	set := quickSettings()
	s, stop := runServer(t, Config{Settings: set, Upstream: up, Reload: func() (config.Settings, error) {
		next := set
		next.Query.MaxSamples = 10
		next.Cache.HostBytes = 2 << 20
		return next, nil
	}})
	old := s.current.Load()
	answer := make(chan string, 1)
	go func() {
		_, body := fetch(t, "GET", s.URL()+"/query?query=up&time=1")
		answer <- body
	}()
	<-up.at
	code, _ := fetch(t, "POST", s.URL()+"/-/reload")
	require.Equal(t, 200, code)
	require.NotSame(t, old, s.current.Load())
	require.True(t, inUse(old.reads.Stores[0].Count))
	close(up.wait)
	require.Contains(t, <-answer, `"value":[1,"1"]`)
	require.NoError(t, stop())
	requireUnused(t, old.reads.Stores[0].Count)
	requireUnused(t, old.eval.Count)
}

func TestBasicAuthentication(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	require.NoError(t, err)
	set := quickSettings()
	set.Web.ListenAddress = config.List{"127.0.0.1:0", "127.0.0.1:0"}
	set.Web.Config.File = testfiles.Config(t, "basic_auth_users: {me: '"+string(hash)+"'}\n")
	s, stop := runServer(t, Config{Settings: set, Upstream: counting{}})
	for _, l := range s.listeners {
		for password, want := range map[string]int{"right": 200, "wrong": 401} {
			code, _ := fetch(t, "GET", "http://me:"+password+"@"+l.Addr().String()+"/query?query=up&time=1")
			require.Equal(t, want, code)
		}
	}
	require.NoError(t, stop())
	require.Equal(t, "https", schemeOf(testfiles.Config(t, "tls_server_config: {cert_file: c, key_file: k}\n")))
	require.Equal(t, "http", schemeOf(set.Web.Config.File))
}

func TestStatusConfigHidesSecrets(t *testing.T) {
	set := settingsOf(t, "--config.file="+testfiles.Config(t, `
remote_read:
- url: http://me:secret1@p/api/v1/read
  headers: {X-Token: secret2}
  authorization: {credentials: secret3}
`))
	src, err := set.Sources()
	require.NoError(t, err)
	c := (&backend.Backend{Stores: []*backend.Store{{Key: backend.StoreKey{From: src[0]}}}}).ShownConfig()
	text := c.String()
	require.Contains(t, text, "remote_read")
	require.NotContains(t, text, "secret1")
	require.NotContains(t, text, "secret2")
	require.NotContains(t, text, "secret3")
	require.Equal(t, "secret2", src[0].Remote.Headers["X-Token"])
}

// TestAdminAPI drops what the cache keeps, where that is enabled.
func TestAdminAPI(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		set := quickSettings()
		set.Web.EnableAdminAPI = enabled
		up := counting{at: make(chan struct{}, 10)}
		s, stop := runServer(t, Config{Settings: set, Upstream: up})
		ask := func() { answers(t, s, "/api/v1/query?query=up&time=1") }
		ask()
		ask()
		require.Len(t, up.at, 1)
		code, body := fetch(t, "POST", s.URL()+"/api/v1/admin/cache/drop?match[]=up&end=1200")
		if enabled {
			require.Equal(t, 200, code, body)
			require.Contains(t, body, `"selectors":1`)
			ask()
			require.Len(t, up.at, 2)
		} else {
			require.Equal(t, 503, code, body)
		}
		require.NoError(t, stop())
	}
}

// TestCachePath starts again on what an earlier server has fetched.
func TestCachePath(t *testing.T) {
	set := quickSettings()
	set.Cache.Path = filepath.Join(t.TempDir(), "kept")
	up := counting{at: make(chan struct{}, 10)}
	ask := func(s *Server) { answers(t, s, "/api/v1/query?query=up&time=1", `[1,"1"]`) }
	s, stop := runServer(t, Config{Settings: set, Upstream: up, Reload: func() (config.Settings, error) { return set, nil }})
	ask(s)
	require.Len(t, up.at, 1)

	// Another cannot have it at the same time.
	_, err := New(Config{Settings: set, Upstream: up})
	require.ErrorContains(t, err, "cache.path "+set.Cache.Path+": another process has it open")

	// A reload that makes a new cache takes it over.
	set.Cache.HostBytes *= 2
	code, body := fetch(t, "POST", s.URL()+"/-/reload")
	require.Equal(t, 200, code, body)
	ask(s)
	require.Len(t, up.at, 1)
	answers(t, s, "/metrics", "promwarp_cache_disk_files 1\n")
	require.NoError(t, stop())

	s, _ = runServer(t, Config{Settings: set, Upstream: up})
	ask(s)
	require.Len(t, up.at, 1)
}

// givenFlags gives args to a command with all settings.
func givenFlags(t *testing.T, args ...string) *config.Flags {
	t.Helper()
	f := &config.Flags{}
	app := kingpin.New("test", "")
	f.Add(app, true)
	_, err := app.Parse(args)
	require.NoError(t, err)
	return f
}

func settingsOf(t *testing.T, args ...string) config.Settings {
	t.Helper()
	s, err := givenFlags(t, args...).Load()
	require.NoError(t, err)
	return s
}

// The doors for clients are made from the program's settings and its engine.
func TestClientDoors(t *testing.T) {
	set := quickSettings()
	set.Web.UpstreamURL = "https://me:secret@prometheus.example/base/"
	set.Query.LookbackDelta = config.AutoDuration(100 * 365 * 24 * time.Hour) // back to the sample's time
	s, _ := runServer(t, Config{Settings: set, Upstream: counting{}})

	require.Equal(t, "# TYPE up untyped\nup{instance=\"\"} 1 1000\n", answers(t, s, "/federate?match[]=up"))
	body := answers(t, s, "/api/v1/features")
	var got struct{ Data map[string]map[string]bool }
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.True(t, got.Data["promql"]["at_modifier"])
	require.True(t, got.Data["promql"]["per_query_lookback_delta"])
	require.True(t, got.Data["promql"]["duration_expr"])
	require.False(t, got.Data["promql"]["delayed_name_removal"])
	require.True(t, got.Data["promql_functions"]["rate"])
	require.True(t, got.Data["api"]["query_stats"])

	r, err := http.NewRequest("GET", s.URL()+"/graph?g0.expr=up", nil)
	require.NoError(t, err)
	resp, err := browser.Transport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 302, resp.StatusCode)
	require.Equal(t, "https://prometheus.example/base/graph?g0.expr=up", resp.Header.Get("Location"))
	body = answers(t, s, "/api/v1/status/flags", "prometheus.example")
	require.NotContains(t, body, "secret")
}

// eleven is an upstream of a series of eleven samples.
type eleven struct{}

func (eleven) Fetch(context.Context, int64, int64, []*labels.Matcher, selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	if err := b.Floats([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, make([]float64, 11)); err != nil {
		return nil, nil, err
	}
	sel, err := b.Finish()
	return sel, nil, err
}

// The limits of remote read hold in a server, and its metrics count what they refuse.
func TestServeRemoteRead(t *testing.T) {
	set := quickSettings()
	set.Storage.Remote.ReadSampleLimit, set.Storage.Remote.ReadMaxQueries = 10, 1
	s, _ := runServer(t, Config{Settings: set, Upstream: eleven{}})
	defer http.DefaultClient.CloseIdleConnections()
	ask := func(queries int, types ...prompb.ReadRequest_ResponseType) (int, string, []byte) {
		req := &prompb.ReadRequest{AcceptedResponseTypes: types}
		for range queries {
			req.Queries = append(req.Queries, &prompb.Query{EndTimestampMs: 60 * 60_000, Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "m"}}})
		}
		data, err := req.Marshal()
		require.NoError(t, err)
		resp, err := http.Post(s.URL()+config.ReadPath, "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, data)))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, resp.Header.Get("Content-Type"), body
	}
	code, _, body := ask(1)
	require.Equal(t, 400, code)
	require.Equal(t, "exceeded sample limit (10)\n", string(body))
	code, _, body = ask(2)
	require.Equal(t, 400, code)
	require.Contains(t, string(body), "2 queries or more; the limit is 1")
	code, typ, body := ask(1, prompb.ReadRequest_STREAMED_XOR_CHUNKS)
	require.Equal(t, 200, code)
	require.Equal(t, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse", typ)
	require.NotEmpty(t, body)

	answers(t, s, "/metrics",
		`promwarp_read_requests_total{form="samples",outcome="refused"} 1`, `promwarp_read_requests_total{form="none",outcome="refused"} 1`,
		`promwarp_read_requests_total{form="chunks",outcome="ok"} 1`, "prometheus_remote_read_handler_queries 0")
	answers(t, s, "/api/v1/status/flags", `"storage.remote.read-sample-limit":"10"`)
}
