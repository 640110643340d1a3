package server

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/canary"
	asking "github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestQueryLog: each query has a line if that is asked for, and a slow one has its plan.
func TestQueryLog(t *testing.T) {
	var log testlog.Log
	set := quickSettings()
	set.Cache.Path = t.TempDir()
	s, stop := runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ask := func(query string) string {
		before := len(log.String())
		fetch(t, "GET", s.URL()+"/api/v1/query_range?start=600&end=3600&step=15&query="+url.QueryEscape(query))
		return log.String()[before:]
	}
	_, err := os.Stat(set.Cache.Path + "/queries.active")
	require.NoError(t, err)
	require.NotContains(t, ask("sum(rate(x[5m]))"), "query")
	require.NoError(t, stop())

	set.Log.Queries = true
	set.Cache.Path = ""
	s, stop = runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Regexp(t, `level=INFO msg=query component=web id=1 door=/api/v1/query_range query=sum\(rate\(x\[5m\]\)\) start=1970-01-01T00:10:00.000Z end=1970-01-01T01:00:00.000Z step=15s executor=cpu took=\S+ samples=\d+\n`, ask("sum(rate(x[5m]))"))
	require.Contains(t, ask("x * on () x"), "err=")
	require.NoError(t, stop())

	set.Log.Queries, set.Log.SlowQueries = false, model.Duration(time.Nanosecond)
	s, _ = runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Regexp(t, `level=WARN msg="slow query" .*plan="cpu +sum\(rate\(x\[5m\]\)\) `, ask("sum(rate(x[5m]))"))
}

// TestMetrics: the server's own metrics have good names, and operating.md lists each.
func TestMetrics(t *testing.T) {
	set := quickSettings()
	set.Cache.Path = t.TempDir()
	s, _ := runServer(t, Config{Settings: set, Upstream: bulky{}})
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&query=sum(x)")
	text, err := os.ReadFile("../../../../docs/operating.md")
	require.NoError(t, err)
	listed := regexp.MustCompile("`(promwarp_[a-z_]+\\*?)[`{]").FindAllStringSubmatch(string(text), -1)
	families, err := s.gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "promwarp_") || name == "promwarp_build_info" {
			continue
		}
		names = append(names, name)
		found := false
		for _, l := range listed {
			prefix, all := strings.CutSuffix(l[1], "*")
			found = found || l[1] == name || all && strings.HasPrefix(name, prefix)
		}
		require.True(t, found, "docs/operating.md does not list %s", name)
	}
	require.Greater(t, len(names), 40)
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(s.gather), names...)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestCompare: what any door evaluates is compared, one whose answer is another than the upstream's is
// found, a reload changes how much, and a server that stops leaves nothing behind.
func TestCompare(t *testing.T) {
	var log testlog.Log
	set := quickSettings()
	set.Compare.Fraction = 1
	set.Query.LookbackDelta = config.AutoDuration(time.Hour)
	next := set
	next.Compare.Fraction = 0
	s, stop := runServer(t, Config{
		Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Reload: func() (config.Settings, error) { return next, nil },
	})
	q := "query=" + url.QueryEscape(`sum by (i) (rate(x[5m]))`)
	same := func() int {
		_, page := fetch(t, "GET", s.URL()+"/metrics")
		return counted(t, page, `promwarp_compare_queries_total{verdict="same"}`)
	}
	for i, ask := range []string{
		"/api/v1/query?time=3600&" + q, "/api/v1/query_range?start=600&end=3600&step=15&" + q,
		"/query?start=600&end=3600&step=15&" + q, "/query?format=csv&start=600&end=3600&step=15&" + q, "/query?format=csv&time=3600&" + q,
	} {
		code, body := fetch(t, "GET", s.URL()+ask)
		require.Equal(t, 200, code, body)
		require.Eventually(t, func() bool { return same() == i+1 && s.canary.Pending() == 0 }, time.Minute, time.Millisecond, ask)
	}
	fetch(t, "GET", s.URL()+"/api/v1/query?executor=prometheus&time=3600&"+q)
	fetch(t, "GET", s.URL()+"/explain?analyze=true&time=3600&"+q)
	require.NoError(t, s.Reload())
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&"+q)
	_, page := fetch(t, "GET", s.URL()+"/metrics")
	require.Equal(t, 5, same())
	require.Contains(t, page, "promwarp_compare_running 0")
	require.Contains(t, page, "promwarp_compare_sampled_ratio 0\n")
	for _, side := range []string{"prometheus", "promwarp"} {
		require.Equal(t, 5, counted(t, page, `promwarp_compare_evaluation_seconds_count{side="`+side+`"}`))
	}
	require.NotContains(t, page, "promwarp_compare_skipped_total{")
	require.NotContains(t, page, `promwarp_compare_queries_total{verdict="different"} 1`)

	empty, end := asking.Inside(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	}))
	defer end()
	next.Compare.Fraction = 1
	require.NoError(t, s.Reload())
	s.canary.Set(canary.Settings{Fraction: 1, Timeout: time.Minute, Upstream: empty})
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&"+q)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `verdict=upstream difference="infos`) }, 10*time.Second, time.Millisecond, &log)

	require.NoError(t, s.Reload()) // which sets the canary as the settings say
	var crowd sync.WaitGroup
	for i := range 50 {
		crowd.Go(func() {
			resp, err := browser.Get(s.URL() + "/api/v1/query?time=3600&" + q + fmt.Sprint("%2B", i))
			if assert.NoError(t, err) {
				assert.Equal(t, 200, resp.StatusCode)
				resp.Body.Close()
			}
		})
	}
	crowd.Wait()
	require.Eventually(t, func() bool { return s.canary.Pending() == 0 }, time.Minute, time.Millisecond)
	_, page = fetch(t, "GET", s.URL()+"/metrics")
	require.Greater(t, same(), 5)
	require.Contains(t, page, `promwarp_memory_bytes{part="evaluation"} 0`)
	require.NotContains(t, page, `promwarp_compare_skipped_total{reason="failed"}`)
	require.NotContains(t, page, `promwarp_compare_queries_total{verdict="different"} 1`)
	for range 3 {
		code, _ := fetch(t, "GET", s.URL()+"/api/v1/query_range?start=0&end=86400&step=15&"+q)
		require.Equal(t, 200, code)
	}
	require.NoError(t, stop()) // in the middle of a comparison
	require.Zero(t, s.canary.Pending())
	require.False(t, strings.Contains(log.String(), "level=ERROR"), log.String())
}

// bulky is an upstream that has 100 series of every name, with a sample each 15 s that nothing
// compresses.
type bulky struct{}

func (bulky) Fetch(_ context.Context, mint, maxt int64, matchers []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	r := rand.New(rand.NewPCG(1, 2))
	b := selection.NewBuilder(0)
	const step = 15_000
	for i := range 100 {
		b.Series(labels.FromStrings("__name__", matchers[0].Value, "i", fmt.Sprintf("%03d", i)))
		var values []float64
		times := selectiontest.TimesBetween((mint+step-1)/step*step, maxt, step)
		for range times {
			values = append(values, r.NormFloat64())
		}
		if err := b.Floats(times, values); err != nil {
			return nil, nil, err
		}
	}
	s, err := b.Finish()
	return s, nil, err
}

// TestCacheGivesWay: a query that needs the memory that the cache holds is answered, the cache
// shrinks for it, and grows again.
func TestCacheGivesWay(t *testing.T) {
	set := quickSettings()
	set.Memory.Limit = 128 << 20 // of which requests and the cache may take 102 MiB
	set.Cache.HostBytes, set.Cache.DecodedBytes, set.Cache.ResultsBytes = 94<<20, 0, 0
	set.Query.MaxMemory = 100 << 20
	s, _ := runServer(t, Config{Settings: set, Upstream: bulky{}})
	end := time.Now().Add(-24 * time.Hour).Unix()
	ask := func(expr string, step int64) {
		t.Helper()
		q := url.Values{"query": {expr}, "start": {fmt.Sprint(end - 86_000)}, "end": {fmt.Sprint(end)}, "step": {fmt.Sprint(step)}}
		code, body := fetch(t, http.MethodGet, s.URL()+"/api/v1/query_range?"+q.Encode())
		require.Equal(t, http.StatusOK, code, "%.300s", body)
	}
	fill := func() int64 {
		for i := range 18 {
			ask(fmt.Sprintf("count(m%d)", i), 3600)
		}
		return s.current.Load().reads.Stores[0].Cache.Stats().Bytes
	}
	full := fill()
	require.Greater(t, full, int64(80<<20))
	require.Zero(t, s.memory.Reclaimed())
	ask("count(sum by (i) (m0) + sum by (i) (m0 * 2) + sum by (i) (m0 * 3))", 8)
	require.Positive(t, s.memory.Reclaimed())
	require.Less(t, s.current.Load().reads.Stores[0].Cache.Stats().Bytes, full)
	require.Greater(t, fill(), int64(80<<20))
	_, metrics := fetch(t, http.MethodGet, s.URL()+"/metrics")
	require.Contains(t, metrics, "\npromwarp_memory_reclaimed_bytes_total ")
}

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

// askTraced asks as a client that traces and returns the trace in the answer's header.
func askTraced(t *testing.T, s *Server, path string) string {
	r, err := http.NewRequest(http.MethodGet, s.URL()+path, nil)
	require.NoError(t, err)
	r.Header.Set("traceparent", fmt.Sprintf("00-%s-%s-01", clientTrace, clientSpan))
	resp, err := browser.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.Header.Get(tracing.IDHeader)
}

// TestTrace: a query's stages are spans of its client's trace, which goes on to the upstream; without
// a provider the trace goes on all the same.
func TestTrace(t *testing.T) {
	var parents sync.Map // of the upstream's requests for samples
	up := startSettable(t)
	target, err := url.Parse(up.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := r.Header.Get("traceparent"); h != "" {
			parents.Store(h, r.URL.Path)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	set := quickSettings()
	set.Upstream.URL = between.URL
	var log testlog.Log
	s, stop := runServer(t, Config{Settings: set, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})

	require.Equal(t, clientTrace, askTraced(t, s, "/api/v1/query?time=1000&query=x"))
	parents.Range(func(header, path any) bool {
		require.Equal(t, fmt.Sprintf("00-%s-%s-01", clientTrace, clientSpan), header, path)
		return true
	})
	parents.Clear()
	resp, err := browser.Get(s.URL() + "/api/v1/query?time=1000&query=x")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, resp.Header.Get(tracing.IDHeader), "nobody traces")

	spans := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	require.Equal(t, clientTrace, askTraced(t, s, "/api/v1/query_range?start=0&end=1800&step=60&query="+url.QueryEscape("sum(rate(x[5m]))")))
	require.Equal(t, clientTrace, askTraced(t, s, "/api/v1/labels"))
	require.NoError(t, stop()) // when all spans have ended
	otel.SetTracerProvider(noop.NewTracerProvider())

	all := map[string]tracetest.SpanStub{}
	for _, stub := range spans.GetSpans() {
		require.Equal(t, clientTrace, stub.SpanContext.TraceID().String(), stub.Name)
		all[stub.SpanContext.SpanID().String()] = stub
	}
	const door, other = "GET /api/v1/query_range", "GET /api/v1/labels"
	paths := map[string]string{} // from the door down, by the last span's name
	for _, stub := range all {
		path := stub.Name
		for parent := stub.Parent.SpanID().String(); parent != clientSpan; parent = all[parent].Parent.SpanID().String() {
			require.Contains(t, all, parent, path)
			path = all[parent].Name + " > " + path
		}
		if !strings.HasPrefix(path, other+" > ") { // which has some stages, too
			paths[stub.Name] = path
		}
	}
	for _, name := range []string{"admission", "plan", "fetch", "remote read", "evaluate", "leaf on cores", "encode"} {
		require.Contains(t, paths, name)
		require.True(t, strings.HasPrefix(paths[name], door+" > "), paths[name])
	}
	require.Contains(t, paths["remote read"], "fetch > ")
	require.Contains(t, paths["leaf on cores"], "evaluate > ")
	require.Contains(t, paths, other)
	require.Contains(t, log.String(), "trace="+clientTrace)
	to := map[any]int{}
	parents.Range(func(header, path any) bool {
		of := strings.Split(header.(string), "-")
		require.Equal(t, clientTrace, of[1])
		require.Contains(t, all, of[2], "the upstream's parent is a span of promwarp's")
		to[path]++
		return true
	})
	require.NotZero(t, to["/api/v1/read"])
	require.NotZero(t, to["/api/v1/labels"])
}

// TestTracesAreSent: the configuration says where to, and a reload changes that. Where no server takes
// them no request waits, the log says so once, and the server stops in time.
func TestTracesAreSent(t *testing.T) {
	var taken atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" && r.Header.Get("X-Key") == "k" {
			taken.Add(1)
		}
	}))
	t.Cleanup(collector.Close)
	var log testlog.Log
	set := quickSettings()
	next := set
	next.Tracing = promconfig.TracingConfig{
		ClientType: promconfig.TracingClientHTTP, Endpoint: strings.TrimPrefix(collector.URL, "http://"), SamplingFraction: 1, Insecure: true, Headers: map[string]string{"X-Key": "k"},
	}
	s, stop := runServer(t, Config{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Reload: func() (config.Settings, error) { return next, nil }})
	traced := func() string {
		resp, err := browser.Get(s.URL() + "/api/v1/query?time=1&query=up")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
		return resp.Header.Get(tracing.IDHeader)
	}
	require.Empty(t, traced())
	require.NoError(t, s.Reload())
	require.Len(t, traced(), 32)
	good := next.Tracing
	next.Tracing.TLSConfig.CAFile = "/nowhere"
	require.ErrorContains(t, s.Reload(), "tracing: ")
	next.Tracing = promconfig.TracingConfig{ClientType: promconfig.TracingClientGRPC, Endpoint: "127.0.0.1:1", SamplingFraction: 1, Insecure: true}
	require.NoError(t, s.Reload()) // which sends what the one before has
	require.Eventually(t, func() bool { return taken.Load() > 0 }, time.Minute, time.Millisecond)

	for range 100 {
		require.Len(t, traced(), 32)
	}
	next.Tracing = good
	require.NoError(t, s.Reload())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the last traces were not sent") }, time.Minute, time.Millisecond)
	require.NoError(t, stop())
	require.LessOrEqual(t, strings.Count(log.String(), "level=WARN"), 2, log.String())
}
