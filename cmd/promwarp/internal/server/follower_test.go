package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/internal/testlog"
)

// settable is a Prometheus as promwarp sees it, whose settings can be changed.
type settable struct {
	url      string
	external atomic.Pointer[labels.Labels]
	interval atomic.Pointer[string]
	features atomic.Pointer[string]
	down     atomic.Bool
	reads    atomic.Int64
}

func startSettable(t *testing.T) *settable {
	t.Helper()
	st := promqltest.LoadedStorage(t, `load 15s
  x{i="1"} 0+1x400
  x{i="2",room="5"} 0+2x400
`)
	s := &settable{}
	s.set(labels.EmptyLabels(), "1m", "")
	read := remote.NewReadHandler(promslog.NewNopLogger(), nil, st, func() promconfig.Config {
		var c promconfig.Config
		c.GlobalConfig.ExternalLabels = *s.external.Load()
		return c
	}, 0, 10, 1<<20)
	data := func(w http.ResponseWriter, v any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": v})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/read", func(w http.ResponseWriter, r *http.Request) {
		s.reads.Add(1)
		read.ServeHTTP(w, r)
	})
	mux.HandleFunc("/api/v1/status/config", func(w http.ResponseWriter, _ *http.Request) {
		ls, _ := json.Marshal(s.external.Load().Map())
		data(w, map[string]string{"yaml": fmt.Sprintf("global: {evaluation_interval: %s, external_labels: %s}", *s.interval.Load(), ls)})
	})
	mux.HandleFunc("/api/v1/status/flags", func(w http.ResponseWriter, _ *http.Request) {
		data(w, map[string]string{"enable-feature": *s.features.Load(), "query.lookback-delta": "7m"})
	})
	mux.HandleFunc("/api/v1/status/buildinfo", func(w http.ResponseWriter, _ *http.Request) { data(w, map[string]string{"version": "3.15.0"}) })
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			http.Error(w, "down for a test", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of statuses that Prometheus's handler writes in the middle
	srv.Start()
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *settable) set(external labels.Labels, interval, features string) {
	s.external.Store(&external)
	s.interval.Store(&interval)
	s.features.Store(&features)
}

// answerOf asks for a query at 30 minutes and returns the answer's body.
func answerOf(t *testing.T, s *Server, query string) string {
	t.Helper()
	_, body := fetch(t, "GET", s.URL()+"/api/v1/query?time=1800&query="+url.QueryEscape(query))
	return body
}

// TestFollowsUpstream: evaluation interval, features, lookback delta and external labels
// are the upstream's, and change with it.
func TestFollowsUpstream(t *testing.T) {
	up := startSettable(t)
	up.set(labels.FromStrings("cluster", "eu"), "15s", "")
	set := quickSettings()
	set.Upstream.URL = up.url
	s, _ := runServer(t, Config{Settings: set})
	require.Contains(t, answerOf(t, s, `sum(count_over_time(x[2m:]))`), `"16"`)
	require.Contains(t, answerOf(t, s, `count by (cluster) (x{cluster!="eu"})`), `"metric":{},"value":[1800,"2"]`)
	require.Contains(t, answerOf(t, s, `mad_over_time(x[5m])`), "not enabled")
	answers(t, s, "/api/v1/status/flags", `"query.lookback-delta":"7m"`)
	answers(t, s, "/-/ready", `external labels {cluster="eu"}, evaluation interval 15s, lookback delta 7m0s, features none, version 3.15.0`)
	answers(t, s, "/explain?query=x&time=1800", `evaluation interval 15s`)

	// A fetch notices another configuration, the next look at everything other features.
	up.set(labels.FromStrings("room", "5"), "30s", "promql-experimental-functions")
	require.Eventually(t, func() bool {
		for _, st := range s.current.Load().reads.Stores {
			st.Follower.Nudge()
		}
		body := answerOf(t, s, `sum(count_over_time(x[2m:]))`)
		return body == answerOf(t, s, `sum(count_over_time(x[2m:30s]))`)
	}, 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		code, _ := fetch(t, "GET", s.URL()+"/api/v1/query?time=1800&query="+url.QueryEscape(`mad_over_time(x[5m])`))
		return code == 200
	}, 10*time.Second, 20*time.Millisecond)
	require.Contains(t, answerOf(t, s, `count by (cluster, room) (x)`), `"room":"5"`)
	require.Contains(t, answerOf(t, s, `count(x{room=""})`), `"1"`)
}

// TestGivenSettingsWin: what the operator has set is not the upstream's.
func TestGivenSettingsWin(t *testing.T) {
	up := startSettable(t)
	up.set(labels.EmptyLabels(), "15s", "promql-experimental-functions")
	set := settingsOf(t, "--upstream.url="+up.url, "--query.evaluation-interval=1m", "--enable-feature=none", "--query.lookback-delta=1m", "--web.listen-address=127.0.0.1:0")
	s, _ := runServer(t, Config{Settings: set})
	require.Contains(t, answerOf(t, s, `sum(count_over_time(x[2m:]))`), `"4"`)
	require.Contains(t, answerOf(t, s, `mad_over_time(x[5m])`), "not enabled")
	answers(t, s, "/api/v1/status/flags", `"query.lookback-delta":"1m"`)
}

// TestUpstreamComesLater: a server that starts before its upstream follows it once it is
// there, and answers nothing before that.
func TestUpstreamComesLater(t *testing.T) {
	up := startSettable(t)
	up.set(labels.FromStrings("cluster", "eu"), "15s", "promql-experimental-functions")
	up.down.Store(true)
	set := quickSettings()
	set.Upstream.URL = up.url
	var log testlog.Log
	s, _ := runServer(t, Config{Settings: set, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Contains(t, log.String(), "does not answer remote read")
	_, body := fetch(t, "GET", s.URL()+"/-/ready")
	require.Contains(t, body, "not answered yet")
	require.Contains(t, answerOf(t, s, "x"), `"error"`)
	up.down.Store(false)
	require.Eventually(t, func() bool {
		code, _ := fetch(t, "GET", s.URL()+"/api/v1/query?time=1800&query="+url.QueryEscape(`mad_over_time(x[5m])`))
		return code == 200
	}, 10*time.Second, 50*time.Millisecond)
	require.Contains(t, answerOf(t, s, `sum(count_over_time(x[2m:]))`), `"16"`)
}

// TestReadiness: a server is ready once its upstream was read, which takes no query, and stays so when
// that goes away, but says since when; if asked to, it is not ready meanwhile.
func TestReadiness(t *testing.T) {
	up := startSettable(t)
	up.set(labels.EmptyLabels(), "15s", "")
	up.down.Store(true)
	set := quickSettings()
	set.Upstream.URL, set.Upstream.ExternalLabels = up.url, config.ExternalLabels{Given: "{}"}
	s, _ := runServer(t, Config{Settings: set})
	set.Web.ReadyNeedsUpstream = true
	strict, _ := runServer(t, Config{Settings: set})
	ready := func(s *Server) (int, string) { return fetch(t, "GET", s.URL()+"/-/ready") }
	turns := func(s *Server, want int) {
		t.Helper()
		require.Eventually(t, func() bool { code, _ := ready(s); return code == want }, 20*time.Second, 10*time.Millisecond)
	}
	for _, s := range []*Server{s, strict} {
		code, body := ready(s)
		require.Equal(t, 503, code)
		require.Contains(t, body, "promwarp is not ready: "+up.url+"/api/v1/read was not read yet: "+up.url+"/api/v1/read answers with status 503")
		code, _ = fetch(t, "GET", s.URL()+"/-/healthy")
		require.Equal(t, 200, code)
	}
	up.down.Store(false)
	turns(s, 200)
	turns(strict, 200)
	_, body := ready(s)
	require.NotContains(t, body, "away")

	up.down.Store(true)
	for _, s := range []*Server{s, strict} {
		require.Contains(t, answerOf(t, s, "x"), `"error"`)
	}
	code, body := ready(s)
	require.Equal(t, 200, code)
	require.Regexp(t, `(?m)^\S+/api/v1/read is away since \d{4}-\S+Z: \S+ answers with status 503 Service Unavailable$`, body)
	code, body = ready(strict)
	require.Equal(t, 503, code)
	require.Contains(t, body, "is away since")
	up.down.Store(false)
	turns(strict, 200)
}

// TestUnreachable: of an upstream that is down each endpoint says first that it cannot be reached.
func TestUnreachable(t *testing.T) {
	set := quickSettings()
	set.Upstream.URL = "127.0.0.1:1"
	s, _ := runServer(t, Config{Settings: set})
	for _, path := range []string{
		"/api/v1/query?query=sum(x)", "/api/v1/query_range?query=rate(x[5m])&start=0&end=60&step=15", "/query?query=x&format=csv",
		"/query?metric=x&start=0&end=60&every=1m&aggregates=mean", "/explain?analyze=true&query=x", "/api/v1/labels", "/api/v1/series?match[]=x",
	} {
		code, body := fetch(t, "GET", s.URL()+path)
		require.Equal(t, 502, code, path)
		require.Contains(t, body, `"error":"cannot reach http://127.0.0.1:1: connection refused; `, path)
	}
}

// TestReadinessOfSeveral: each upstream must have been read without which queries fail, and one at least.
func TestReadinessOfSeveral(t *testing.T) {
	up := startSettable(t)
	up.set(labels.EmptyLabels(), "15s", "")
	here, gone := "\n- url: "+up.url+"/api/v1/read", "\n- url: http://127.0.0.1:1/api/v1/read"
	const optional, refused = "\n  on_failure: warn", "http://127.0.0.1:1/api/v1/read was not read yet: cannot reach http://127.0.0.1:1: connection refused"
	for entries, c := range map[string]struct {
		code int
		want string
	}{
		here:                              {200, "promwarp is ready"},
		gone:                              {503, "promwarp is not ready: " + refused},
		here + gone:                       {503, "promwarp is not ready: " + refused},
		here + gone + optional:            {200, "promwarp is ready.\n" + refused},
		gone + here + optional:            {503, "promwarp is not ready: " + refused},
		gone + optional:                   {503, "none of the upstreams can be read\n" + refused},
		here + optional + gone + optional: {200, "promwarp is ready.\n" + refused},
	} {
		set := settingsOf(t, "--web.listen-address=127.0.0.1:0", "--cache.host-bytes=1MiB", "--config.file="+testfiles.Config(t, "remote_read:"+entries+"\n"))
		s, stop := runServer(t, Config{Settings: set})
		code, body := fetch(t, "GET", s.URL()+"/-/ready")
		require.Equal(t, c.code, code, entries)
		require.Contains(t, body, c.want, entries)
		require.NoError(t, stop())
	}
}

// TestKeptLabelsAreForgotten: where external labels are kept, what was cached with others
// is not served.
func TestKeptLabelsAreForgotten(t *testing.T) {
	up := startSettable(t)
	up.set(labels.FromStrings("cluster", "eu"), "1m", "")
	set := quickSettings()
	set.Upstream.URL = up.url
	set.Upstream.ExternalLabels = config.ExternalLabels{Keep: true}
	s, _ := runServer(t, Config{Settings: set})
	require.Contains(t, answerOf(t, s, `count(x{cluster="eu"})`), `"2"`)
	up.set(labels.FromStrings("cluster", "us"), "1m", "")
	require.Eventually(t, func() bool {
		s.current.Load().reads.Stores[0].Follower.Nudge()
		_, body := fetch(t, "GET", s.URL()+"/-/ready")
		return !strings.Contains(body, "eu")
	}, 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.Contains(answerOf(t, s, `count(x{cluster="us"})`), `"2"`) && strings.Contains(answerOf(t, s, `count by (cluster) (x)`), `{"cluster":"us"}`)
	}, 10*time.Second, 20*time.Millisecond)
}

// TestNoRemoteRead: a server without remote read is refused at start, with what to do.
func TestNoRemoteRead(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"Thanos": http.NotFound,
		"VictoriaMetrics": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "unsupported path requested", http.StatusBadRequest)
		},
		"a web page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello")) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(answer)
			defer srv.Close()
			set := quickSettings()
			set.Upstream.URL = srv.URL
			_, err := New(Config{Settings: set})
			require.ErrorAs(t, err, new(config.UsageError))
			require.ErrorContains(t, err, "point promwarp at a Prometheus, a Mimir or a Cortex; for Thanos, list sidecars, store gateways or a Querier under stores")
		})
	}
}

// flakyProxy forwards to a server unless it is down.
type flakyProxy struct {
	*httptest.Server
	down  atomic.Bool
	reads atomic.Int64
}

func newFlakyProxy(to http.Handler) *flakyProxy {
	p := &flakyProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == config.ReadPath {
			p.reads.Add(1)
		}
		if p.down.Load() {
			http.Error(w, "down for a test", http.StatusBadRequest)
			return
		}
		to.ServeHTTP(w, r)
	}))
	return p
}

// TestSeveralUpstreams has one promwarp read from two others: all doors, with both
// up and with one down, for either setting of on_failure, over a restart and a
// reload.
func TestSeveralUpstreams(t *testing.T) {
	var proxies []*flakyProxy
	for range 2 {
		set := quickSettings()
		set.TSDB.Path = testfiles.DataDirectory(t)
		s, _ := runServer(t, Config{Settings: set})
		proxies = append(proxies, newFlakyProxy(s))
		defer proxies[len(proxies)-1].Close()
	}
	kept := filepath.Join(t.TempDir(), "kept")
	file := testfiles.Config(t, "")
	configure := func(onFailure string) {
		text := fmt.Sprintf("web: {listen_address: '127.0.0.1:0', enable_admin_api: true, enable_lifecycle: true}\ncache: {host_bytes: 8MiB, path: %s}\nremote_read:\n", kept)
		for i, p := range proxies {
			text += fmt.Sprintf("- {name: up%d, url: '%s%s', on_failure: %s}\n", i, p.URL, config.ReadPath, []string{"error", onFailure}[i])
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	}
	configure("warn")
	f := givenFlags(t, "--config.file="+file)
	start := func() (*Server, func() error) {
		set, err := f.Load()
		require.NoError(t, err)
		return runServer(t, Config{Settings: set, Reload: f.Load})
	}
	s, stop := start()
	get := func(path string) (int, string) {
		code, body := fetch(t, "GET", s.URL()+path)
		return code, body
	}
	const query = "/api/v1/query_range?query=sum(rate(m[5m]))&start=600&end=1200&step=600"
	const warning = "partial answer, without anything of the upstream up1: remote read from "

	// Down from the start: partial, and said so by every door.
	proxies[1].down.Store(true)
	for _, path := range []string{query, query + "&executor=prometheus", query + "&executor=cpu&strict=true", "/query?query=sum(m)&time=600"} {
		answers(t, s, path, warning)
	}
	answers(t, s, "/api/v1/label/i/values", `"data":["0","1"]`, "without anything of the upstream up1")
	answers(t, s, "/explain?analyze=true&format=text&query=sum(m)&time=600", "upstream  up0: ", "upstream  up1: ", "  -- "+warning)
	answers(t, s, "/metrics", `promwarp_partial_selections_total{upstream="up0"} 0`, `promwarp_partial_selections_total{upstream="up1"} 5`)

	// Remote read has no warnings.
	reader := quickSettings()
	reader.Upstream.URL = s.URL()
	third, stopThird := runServer(t, Config{Settings: reader})
	code, body := fetch(t, "GET", third.URL()+query)
	require.Equal(t, 502, code, body)
	require.Contains(t, body, "down for a test")

	// Whole as soon as it is up, with nothing of the partial answers left.
	proxies[1].down.Store(false)
	for _, at := range []*Server{s, third} {
		body = answers(t, at, query, `[600,"0.05"]`)
		require.NotContains(t, body, "warnings")
	}
	require.NoError(t, stopThird())
	body = answers(t, s, "/explain?analyze=true&query=sum(rate(m[5m]))&start=600&end=1200&step=600", `"upstreams":[{"name":"up0","cache":{"tiles_kept":`)
	require.NotContains(t, body, "failure")

	// A restart finds both on disk; a reload that changes on_failure keeps both.
	require.NoError(t, stop())
	s, stop = start()
	before := proxies[0].reads.Load() + proxies[1].reads.Load()
	require.NotContains(t, answers(t, s, query), "warnings")
	stores := s.current.Load().reads.Stores
	configure("error")
	code, _ = fetch(t, "POST", s.URL()+"/-/reload")
	require.Equal(t, 200, code)
	require.Equal(t, stores, s.current.Load().reads.Stores)
	_, _ = get(query)
	require.Equal(t, before, proxies[0].reads.Load()+proxies[1].reads.Load())
	answers(t, s, "/metrics", `promwarp_cache_disk_files{upstream="up1"} `)

	// Dropped, it must be asked again, and now it is needed.
	code, body = fetch(t, "POST", s.URL()+"/api/v1/admin/cache/drop?all=true")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"selectors":2`)
	left := func() (n int) {
		names, err := filepath.Glob(filepath.Join(kept, "upstream-*", "*.tiles"))
		require.NoError(t, err)
		return len(names)
	}
	require.Zero(t, left())
	proxies[1].down.Store(true)
	for path, want := range map[string]string{
		query:            "down for a test",
		"/api/v1/labels": "the upstream up1 failed: its answer with status 4", // whose text may hold secrets
	} {
		code, body = get(path)
		require.GreaterOrEqual(t, code, 400, path)
		require.Contains(t, body, want, path)
	}

	// One that is not read from any more leaves nothing.
	proxies[1].down.Store(false)
	_, _ = get(query)
	require.NoError(t, stop())
	require.Equal(t, 2, left())
	proxies = proxies[:1]
	configure("warn")
	s, _ = start()
	require.Zero(t, left())
	answers(t, s, query, `[600,"0.05"]`)
}

// TestReplicas has one promwarp read from a pair: queries and lists are answered while one of them is down,
// in both ways to merge them, and by what each said while both are.
func TestReplicas(t *testing.T) {
	for _, merge := range []string{"failover", "penalty"} {
		t.Run(merge, func(t *testing.T) {
			var proxies []*flakyProxy
			for range 2 {
				set := quickSettings()
				set.TSDB.Path = testfiles.DataDirectory(t)
				s, _ := runServer(t, Config{Settings: set})
				proxies = append(proxies, newFlakyProxy(s))
				defer proxies[len(proxies)-1].Close()
			}
			f := givenFlags(t, "--config.file="+testfiles.Config(t, fmt.Sprintf(
				"web: {listen_address: '127.0.0.1:0'}\nremote_read:\n- {name: pair, replicas: {urls: ['%s%s', '%s%s'], merge: %s}}\n",
				proxies[0].URL, config.ReadPath, proxies[1].URL, config.ReadPath, merge)))
			set, err := f.Load()
			require.NoError(t, err)
			s, _ := runServer(t, Config{Settings: set, Reload: f.Load})
			const query = "/api/v1/query_range?query=sum(rate(m[5m]))&start=600&end=1200&step=600"
			lists := func() {
				body := answers(t, s, "/api/v1/label/i/values", `"data":["0","1"]`)
				require.NotContains(t, body, "warnings")
			}
			require.NotContains(t, answers(t, s, query, `[600,"0.05"]`), "warnings")
			lists()
			proxies[0].down.Store(true)
			answers(t, s, strings.Replace(query, "sum(rate(m[5m]))", "count(m)", 1), `[600,"2"]`)
			lists()
			answers(t, s, "/-/ready", "promwarp is ready")
			answers(t, s, "/explain?analyze=true&format=text&query=sum(m)&time=600", "upstream  "+proxies[0].URL, "upstream  "+proxies[1].URL)
			answers(t, s, "/metrics", `promwarp_replica_selections_total{replica="`+proxies[1].URL+config.ReadPath+`",upstream="pair"} `)
			proxies[1].down.Store(true)
			code, body := fetch(t, "GET", s.URL()+"/api/v1/query?query=absent(new)&time=1100")
			require.Equal(t, 422, code, body)
			for _, p := range proxies {
				require.Contains(t, body, "replica "+p.URL+config.ReadPath+": remote read from "+p.URL)
			}
		})
	}
}
