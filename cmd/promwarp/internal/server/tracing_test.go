package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	promconfig "github.com/prometheus/prometheus/config"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/internal/tracing"
)

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

// askTraced asks as a client that traces and returns the trace in the answer's header.
func askTraced(t *testing.T, s *Server, path string) string {
	r, err := http.NewRequest(http.MethodGet, s.URL()+path, nil)
	require.NoError(t, err)
	r.Header.Set("traceparent", fmt.Sprintf("00-%s-%s-01", clientTrace, clientSpan))
	resp, err := client.Do(r)
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
	var log testfiles.Log
	s, stop := runServer(t, Config{Settings: set, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})

	require.Equal(t, clientTrace, askTraced(t, s, "/api/v1/query?time=1000&query=x"))
	parents.Range(func(header, path any) bool {
		require.Equal(t, fmt.Sprintf("00-%s-%s-01", clientTrace, clientSpan), header, path)
		return true
	})
	parents.Clear()
	resp, err := client.Get(s.URL() + "/api/v1/query?time=1000&query=x")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, resp.Header.Get(tracing.IDHeader), "nobody traces")

	spans := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	tracing.Collect(true)
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	defer tracing.Collect(false)
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

// TestTracesAreSent: the configuration says where to, and a reload changes that. Where nobody takes
// them no request waits, the log says so once, and the server stops in time.
func TestTracesAreSent(t *testing.T) {
	var taken atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" && r.Header.Get("X-Key") == "k" {
			taken.Add(1)
		}
	}))
	t.Cleanup(collector.Close)
	var log testfiles.Log
	set := quickSettings()
	next := set
	next.Tracing = promconfig.TracingConfig{
		ClientType: promconfig.TracingClientHTTP, Endpoint: strings.TrimPrefix(collector.URL, "http://"), SamplingFraction: 1, Insecure: true, Headers: map[string]string{"X-Key": "k"},
	}
	s, stop := runServer(t, Config{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Reload: func() (config.Settings, error) { return next, nil }})
	traced := func() string {
		resp, err := client.Get(s.URL() + "/api/v1/query?time=1&query=up")
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
