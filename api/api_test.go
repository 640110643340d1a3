package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/features"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// newStorage returns a storage with what load says, in promqltest's language.
func newStorage(t testing.TB, load string) *teststorage.TestStorage {
	return promqltest.LoadedStorage(t, load)
}

const someSeries = `
load 1m
	m{i="0"} 0+1x120
	m{i="1"} 0+2x120
	slash{"a/b"="c"} 1x120
`

func newEngine(t testing.TB, change func(*promql.EngineOpts)) *engine.Engine {
	o := promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true}
	if change != nil {
		change(&o)
	}
	e := engine.New(engine.Options{Prometheus: o})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// newTestAPI returns an API over some series, with options changed.
func newTestAPI(t testing.TB, change func(*Options)) *API {
	t.Helper()
	o := Options{}
	if change != nil {
		change(&o)
	}
	if o.Queryable == nil {
		o.Queryable = newStorage(t, someSeries)
	}
	if o.Engine == nil {
		o.Engine = newEngine(t, nil)
	}
	return New(completed(o))
}

// completed returns options with what is required of which a test says nothing.
func completed(o Options) Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Parser == nil {
		o.Parser = parser.NewParser(parser.Options{ExperimentalDurationExpr: true})
	}
	if o.Resample == nil {
		o.Resample = resample.New(resample.Options{Memory: o.Memory})
	}
	if o.Config == nil {
		o.Config = func() promconfig.Config { return promconfig.DefaultConfig }
	}
	if o.Ready == nil {
		o.Ready = func() ([]string, error) { return nil, nil }
	}
	if o.CORSOrigin == nil {
		o.CORSOrigin = regexp.MustCompile("^(?:.*)$")
	}
	if o.Gatherer == nil {
		o.Gatherer = prometheus.NewRegistry()
	}
	if o.Metrics == nil {
		o.Metrics = guard.NewMetrics(nil)
	}
	if o.Flags == nil {
		o.Flags = map[string]string{}
	}
	if o.ExternalLabels == nil {
		o.ExternalLabels = labels.EmptyLabels
	}
	if o.Features == nil {
		r := features.NewRegistry()
		o.Parser.RegisterFeatures(r)
		o.Features = r.Get
	}
	if o.Caches == nil {
		o.Caches = func(int) []cache.Contents { return []cache.Contents{} }
	}
	if o.GPUs == nil {
		o.GPUs = (*placement.Placer)(nil).Report
	}
	start := time.Now()
	o.RuntimeInfo = func() RuntimeInfo { return NewRuntimeInfo(start) }
	if o.Known == nil {
		o.Known = func() []string { return nil }
	}
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, maxBodyBytes)
	o.MaxListBytes = cmp.Or(o.MaxListBytes, MaxListBytes)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 5*time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	o.LookbackDelta = cmp.Or(o.LookbackDelta, 5*time.Minute)
	return o
}

const maxBodyBytes = 10 << 20

// answer is an answer in Prometheus's form.
type answer struct {
	Status    string
	Data      json.RawMessage
	ErrorType string
	Error     string
	Warnings  []string
}

func do(t *testing.T, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func getJSON(t *testing.T, h http.Handler, path string) (int, answer) {
	t.Helper()
	return decode(t, do(t, h, httptest.NewRequest(http.MethodGet, path, nil)))
}

func postForm(t *testing.T, h http.Handler, path string, form url.Values) (int, answer) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return decode(t, do(t, h, r))
}

func decode(t *testing.T, w *httptest.ResponseRecorder) (int, answer) {
	t.Helper()
	require.Equal(t, "application/json", w.Header().Get("Content-Type"), w.Body.String())
	var a answer
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a), w.Body.String())
	return w.Code, a
}

func TestExecutorParameter(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, mode := range []engine.Mode{engine.Auto, engine.CPU, engine.Prometheus} {
		form := url.Values{"query": {"m"}, "executor": {string(mode)}}
		_, byGet := getJSON(t, a, "/explain?"+form.Encode())
		_, byPost := postForm(t, a, "/explain", form)
		for _, got := range []answer{byGet, byPost} {
			var e plan.Explanation
			require.NoError(t, json.Unmarshal(got.Data, &e))
			require.Equal(t, string(mode), e.Executor)
		}
	}

	// What the executor cannot take is a warning, or strictly an error.
	form := url.Values{"query": {`timestamp(m @ 60 offset 1s)`}, "time": {"60"}, "executor": {"cpu"}}
	for _, door := range []string{"/api/v1/query", "/query"} {
		form.Set("strict", "false")
		code, got := postForm(t, a, door, form)
		require.Equal(t, 200, code)
		require.NotEmpty(t, got.Warnings)
		form.Set("strict", "true")
		code, got = postForm(t, a, door, form)
		require.Equal(t, 422, code)
		require.Equal(t, "execution", got.ErrorType)
	}

	for _, door := range []string{"/api/v1/query", "/api/v1/query_range", "/query", "/explain"} {
		code, got := getJSON(t, a, door+"?query=m&executor=abacus")
		require.Equal(t, 400, code, door)
		require.Equal(t, "bad_data", got.ErrorType)
		require.Contains(t, got.Error, "abacus")
		code, got = postForm(t, a, door, url.Values{"query": {"m"}, "strict": {"perhaps"}})
		require.Equal(t, 400, code, door)
		require.Contains(t, got.Error, "perhaps")
		code, got = getJSON(t, a, door+"?query=m&exact=digits")
		require.Equal(t, 400, code, door)
		require.Equal(t, `invalid parameter "exact": unknown exactness "digits": use 1e-12 or bits`, got.Error)
		code, _ = getJSON(t, a, door+"?query=m&start=0&end=60&step=60&exact=bits")
		require.Equal(t, 200, code, door)
	}
	code, got := getJSON(t, a, "/explain?query=deriv(m[5m])&exact=bits")
	require.Equal(t, 200, code)
	require.Contains(t, string(got.Data), `"exact":"bits"`)
}

// failing is a storage whose every read fails.
type failing struct {
	err  error // nil waits for the context
	open bool  // fail when the querier is opened
}

func (f failing) Querier(int64, int64) (storage.Querier, error) {
	if f.open {
		return nil, f.err
	}
	return failingQuerier{storage.NoopQuerier(), f}, nil
}

func (f failing) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) {
	if f.open {
		return nil, f.err
	}
	return failingChunkQuerier{storage.NoopChunkedQuerier(), f}, nil
}

func (f failing) read(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	<-ctx.Done()
	return fmt.Errorf("stopped: %w", ctx.Err())
}

type failingQuerier struct {
	storage.Querier
	f failing
}

func (q failingQuerier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	return storage.ErrSeriesSet(q.f.read(ctx))
}

type failingChunkQuerier struct {
	storage.ChunkQuerier
	f failing
}

func (q failingChunkQuerier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.ChunkSeriesSet {
	return storage.ErrChunkSeriesSet(q.f.read(ctx))
}

func TestErrorTable(t *testing.T) {
	up := func(code int, err error) error {
		return &remoteread.Error{Upstream: "http://up:9090", StatusCode: code, Err: err}
	}
	some := errors.New("connection refused")
	healthy := newStorage(t, someSeries)
	// Making an API takes a while, so all cases share one.
	now := &struct {
		Engine
		storage.SampleAndChunkQueryable
	}{newEngine(t, nil), healthy}
	a := newTestAPI(t, func(o *Options) { o.Engine, o.Queryable = now, now })
	for _, c := range []struct {
		name    string
		method  string // empty: GET
		path    string
		storage error // nil: answers
		open    bool
		opts    func(*promql.EngineOpts)
		code    int
		typ     string
		message string
	}{
		{name: "parse error of a range", path: "/query?query=m[&start=0&end=1&step=1", code: 400, typ: "bad_data", message: "parse error"},
		{name: "explained parse error", path: "/explain?query=sum(", code: 400, typ: "bad_data", message: "parse error"},
		{name: "explained end before start", path: "/explain?query=m&start=2&end=1&step=1", code: 400, typ: "bad_data", message: "must not be before start"},
		{name: "explained step 0", path: "/explain?query=m&start=0&end=1&step=0", code: 400, typ: "bad_data", message: "zero or negative"},
		{name: "explained too many steps", path: "/explain?query=m&start=0&end=11001&step=1", code: 400, typ: "bad_data", message: "11,000 points"},
		{name: "bad timeout", path: "/query?query=m&timeout=soon", code: 400, typ: "bad_data", message: "soon"},
		{name: "too many samples", path: "/api/v1/query_range?query=m&start=0&end=7200&step=60", opts: func(o *promql.EngineOpts) { o.MaxSamples = 5 }, code: 422, typ: "execution", message: "too many samples"},
		{name: "many-to-many", path: "/query?query=m*on()m&time=60", code: 422, typ: "execution", message: "many-to-many"},
		{name: "timeout", path: "/query?query=m&timeout=10ms", storage: context.DeadlineExceeded, code: 503, typ: "timeout", message: "timed out"},
		{name: "engine's timeout while fetching", path: "/query?query=m", storage: errWait, opts: func(o *promql.EngineOpts) { o.Timeout = 10 * time.Millisecond }, code: 503, typ: "timeout", message: "timed out"},
		{name: "upstream too slow", path: "/query?query=m", storage: up(0, fmt.Errorf("no answer for 1m: %w", context.DeadlineExceeded)), code: 503, typ: "timeout", message: "no answer for 1m"},
		{name: "upstream down", path: "/api/v1/query?query=sum(m)", storage: up(0, some), code: 502, typ: "unavailable", message: "http://up:9090: connection refused"},
		{name: "upstream down, range", path: "/query?query=rate(m[5m])&start=0&end=60&step=60", storage: up(0, some), code: 502, typ: "unavailable", message: "connection refused"},
		{name: "upstream down, analyzed", path: "/explain?query=sum(m)&analyze=true", storage: up(0, some), code: 502, typ: "unavailable", message: "connection refused"},
		{name: "upstream's 500", path: "/query?query=m", storage: up(500, some), code: 502, typ: "unavailable"},
		{name: "upstream's 401", path: "/query?query=m", storage: up(401, some), code: 502, typ: "unavailable"},
		{name: "upstream's 429", path: "/query?query=m", storage: up(429, some), code: 502, typ: "unavailable"},
		{name: "upstream's 400", path: "/query?query=m", storage: up(400, some), code: 422, typ: "execution"},
		{name: "over promwarp's limit", path: "/query?query=m", storage: up(0, selection.ErrTooLarge), code: 422, typ: "execution"},
		{name: "storage", path: "/query?query=m", storage: some, open: true, code: 422, typ: "execution", message: "connection refused"},
		{name: "no such door", path: "/api/v2/query", code: 404, typ: "not_found", message: "/api/v2/query"},
		{name: "no such door of the API", path: "/api/v1/nothing", code: 404, typ: "not_found", message: "/api/v1/nothing"},
		{name: "remote write", method: http.MethodPost, path: "/api/v1/write", code: 404, typ: "not_found", message: "no remote write"},
		{name: "OTLP", method: http.MethodPost, path: "/api/v1/otlp/v1/metrics", code: 404, typ: "not_found", message: "no OTLP"},
		{name: "admin", method: http.MethodPut, path: "/api/v1/admin/tsdb/snapshot", code: 500, typ: "unavailable", message: "administer"},
		{name: "search", path: "/api/v1/search/metric_names", code: 404, typ: "not_found", message: "running Prometheus"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now.Engine = newEngine(t, c.opts)
			now.SampleAndChunkQueryable = healthy
			switch c.storage {
			case nil:
			case errWait:
				now.SampleAndChunkQueryable = failing{}
			default:
				now.SampleAndChunkQueryable = failing{err: c.storage, open: c.open}
			}
			code, got := decode(t, do(t, a, httptest.NewRequest(cmp.Or(c.method, http.MethodGet), c.path, nil)))
			require.Equal(t, c.code, code, got.Error)
			require.Equal(t, "error", got.Status)
			require.Equal(t, c.typ, got.ErrorType)
			require.Contains(t, got.Error, c.message)
		})
	}
}

var errWait = errors.New("wait")

func TestClientGone(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = failing{} })
	for _, door := range []string{"/query?query=m", "/explain?analyze=true&query=sum(m)"} {
		ctx, cancel := context.WithTimeout(context.Background(), 0)
		cancel()
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		code, got := decode(t, do(t, a, httptest.NewRequest(http.MethodGet, door, nil).WithContext(ctx)))
		require.Equal(t, 499, code)
		require.Equal(t, "canceled", got.ErrorType)
	}
}

func TestBodyTooLarge(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer up.Close()
	base, _ := url.Parse(up.URL)
	a := newTestAPI(t, func(o *Options) {
		o.MaxBodyBytes = 100
		o.Remotes = []*forward.Remote{{Name: up.URL, Base: base}}
	})
	form := url.Values{"query": {strings.Repeat("m", 200)}}
	for _, door := range []string{"/query", "/explain", "/api/v1/query_range", "/api/v1/labels"} {
		code, got := postForm(t, a, door, form)
		require.Equal(t, http.StatusRequestEntityTooLarge, code, door)
		require.Contains(t, got.Error, "100 bytes")
	}
	w := do(t, a, httptest.NewRequest(http.MethodPost, "/api/v1/read", strings.NewReader(strings.Repeat("m", 200))))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Contains(t, w.Body.String(), "100 bytes")
	// One that says so is refused before any of it has come.
	for _, door := range []string{"/api/v1/read", "/api/v1/query", "/api/v1/labels", "/api/v1/admin/queries/cancel"} {
		inBubble(t, newTestAPI(t, func(o *Options) { o.MaxBodyBytes, o.Cancel, o.Remotes = 100, true, a.o.Remotes }), func(t *testing.T, p *pipes) {
			c := p.dial()
			defer c.Close()
			start := time.Now()
			resp := answerTo(t, c, fmt.Sprintf(formHeader, door, 200))
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, door)
			require.Zero(t, time.Since(start), door)
			_, err := io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
		})
	}
}

// TestOtherOrigins: a page of another origin cannot use what changes something, be it on or off;
// programs, which name no origin, and promwarp's own page can.
func TestOtherOrigins(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.Dropper, o.Cancel, o.Lifecycle, o.Reload = &dropper{}, true, true, func() error { return nil }
	})
	for path, code := range map[string]int{
		"/api/v1/admin/cache/drop?all=true": 200, "/api/v1/admin/queries/cancel?id=1": 404, "/-/reload": 200, "/-/quit": 403,
	} {
		for from, h := range map[string]http.Header{
			"a program":                 {},
			"its own page":              {"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://example.com"}},
			"an older browser, own":     {"Origin": {"http://example.com"}},
			"another page":              {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://evil"}},
			"a sibling's page":          {"Sec-Fetch-Site": {"same-site"}},
			"an older browser, another": {"Origin": {"http://evil"}},
		} {
			for _, method := range []string{http.MethodPost, http.MethodPut} {
				r := httptest.NewRequest(method, path, strings.NewReader("x"))
				r.Header = h.Clone()
				r.Header.Set("Content-Type", "text/plain")
				w := do(t, a, r)
				if strings.Contains(from, "nother") || strings.Contains(from, "sibling") {
					require.Equal(t, 403, w.Code, "%s %s from %s", method, path, from)
					require.Contains(t, w.Body.String(), "cross-origin", "%s %s from %s", method, path, from)
				} else {
					require.Equal(t, code, w.Code, "%s %s from %s", method, path, from)
				}
			}
		}
	}
}

// TestNoSniffing: every answer forbids browsers to guess its type, errors and redirects included.
func TestNoSniffing(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, path := range []string{
		"/", "/query?query=1", "/api/v1/query?query=1", "/api/v1/query?query=1&x=;", "/query?query=1&format=csv", "/metrics", "/-/ready", "/nothing", "/API/v1/query",
		"//query", "/graph", "/federate?match[]=up", "/version", "/openapi.json", "/api/v1/status/tsdb", "/api/v1/admin/cache/drop",
	} {
		require.Equal(t, []string{"nosniff"}, do(t, a, httptest.NewRequest(http.MethodGet, path, nil)).Header().Values("X-Content-Type-Options"), path)
	}
}

// panicking is an engine with a bug.
type panicking struct{ Engine }

func (panicking) Explain(context.Context, engine.Request, bool) (*plan.Explanation, error) {
	panic("a bug")
}

func TestPanicIsAnError(t *testing.T) {
	reg := prometheus.NewRegistry()
	a := newTestAPI(t, func(o *Options) {
		o.Engine = panicking{newEngine(t, nil)}
		o.Metrics = guard.NewMetrics(reg)
		o.Gatherer = reg
	})
	code, got := getJSON(t, a, "/explain?query=m")
	require.Equal(t, 500, code)
	require.Equal(t, "internal", got.ErrorType)
	require.Contains(t, got.Error, "a bug")
	body := do(t, a, httptest.NewRequest(http.MethodGet, "/metrics", nil)).Body.String()
	require.Contains(t, body, "promwarp_http_panics_total 1")
	require.Contains(t, body, `promwarp_http_request_duration_seconds_count{code="500",door="/explain"} 1`)
	require.Contains(t, body, `promwarp_http_requests_in_flight{door="/metrics"} 1`)
}

func TestExplain(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, analyze := range []string{"false", "true"} {
		code, got := getJSON(t, a, "/explain?query=sum(rate(m[5m]))&start=600&end=1200&step=60&lookback_delta=1m&timeout=1m&analyze="+analyze)
		require.Equal(t, 200, code)
		var e plan.Explanation
		require.NoError(t, json.Unmarshal(got.Data, &e))
		require.Equal(t, "sum(rate(m[5m]))", e.Query)
	}
	for _, accept := range []string{"text/plain", ""} {
		r := httptest.NewRequest(http.MethodGet, "/explain?query=m", nil)
		if accept == "" {
			r = httptest.NewRequest(http.MethodGet, "/explain?query=m&format=text", nil)
		}
		r.Header.Set("Accept", accept)
		w := do(t, a, r)
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Header().Get("Content-Type"), "text/plain")
		require.Contains(t, w.Body.String(), "m")
	}
	code, _ := getJSON(t, a, "/explain?query=m&format=xml")
	require.Equal(t, 400, code)
	code, _ = getJSON(t, a, "/explain?query=m&analyze=maybe")
	require.Equal(t, 400, code)
}

// requireTimeline: one request, which answered.
func requireTimeline(t *testing.T, got *plan.Timeline) {
	t.Helper()
	require.NotNil(t, got)
	require.Equal(t, 1, got.AtOnce)
	require.Len(t, got.Requests, 1)
	r := got.Requests[0]
	require.Equal(t, "ok", r.Outcome)
	require.Zero(t, r.Sent)
	require.LessOrEqual(t, r.Sent, r.FirstByte)
	require.LessOrEqual(t, r.FirstByte, r.Ended)
	require.Positive(t, min(r.Bytes, r.Samples, int64(r.Series), r.To-r.From))
}

// What the cache did for a query is in its explanation when it was run.
func TestExplainCache(t *testing.T) {
	first := httptest.NewServer(newTestAPI(t, nil))
	defer first.Close()
	client := newReadClient(t, first.URL)
	defer client.CloseIdle()
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = selection.Storage{Source: cache.New(client, cache.Options{HostBytes: 1 << 20})}
	})
	for _, executor := range []string{"auto", "prometheus"} {
		for k, want := range []plan.CacheWork{{TilesFetched: 2, Fetches: 1}, {TilesKept: 2}, {}} {
			path := "/explain?query=sum(rate(m[5m]))&start=1200&end=1800&step=60&executor=" + executor
			if k < 2 {
				path += "&analyze=true"
			}
			code, got := getJSON(t, a, path)
			require.Equal(t, 200, code)
			var e plan.Explanation
			require.NoError(t, json.Unmarshal(got.Data, &e))
			if k == 2 {
				require.Nil(t, e.Cache)
				continue
			}
			if executor == "prometheus" {
				want = plan.CacheWork{TilesKept: 2}
			}
			if want.Fetches > 0 {
				require.Positive(t, e.Cache.FetchedBytes)
				require.Positive(t, e.Cache.WaitMicros)
				e.Cache.FetchedBytes, e.Cache.WaitMicros = 0, 0
				requireTimeline(t, e.Cache.Timeline)
				e.Cache.Timeline = nil
			}
			require.Equal(t, want, *e.Cache)
		}
	}
	w := do(t, a, httptest.NewRequest(http.MethodGet, "/explain?query=m&time=1800&analyze=true&format=text", nil))
	require.Contains(t, w.Body.String(), "cache     2 tiles kept, 0 of a wider selector, 0 fetched; 0 fetches brought 0 bytes")
}

// TestExplainedAnswer: an answer explains itself where that is asked for, and is the same otherwise:
// the plan is that of the very evaluation, with what each part of it took.
func TestExplainedAnswer(t *testing.T) {
	first := httptest.NewServer(newTestAPI(t, nil))
	defer first.Close()
	client := newReadClient(t, first.URL)
	defer client.CloseIdle()
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = selection.Storage{Source: cache.New(client, cache.Options{HostBytes: 1 << 20})}
	})
	encoded := int64(0) // µs, of all answers: a small one takes less than one
	explained := func(path string) (e plan.Explanation) {
		plain := do(t, a, httptest.NewRequest(http.MethodGet, path, nil)).Body.String()
		w := do(t, a, httptest.NewRequest(http.MethodGet, path+"&explain=true", nil))
		require.Equal(t, 200, w.Code, w.Body)
		same, text, found := strings.Cut(w.Body.String(), `,"explanation":`)
		require.True(t, found)
		require.Equal(t, plain, same+"}", path)
		require.NoError(t, json.Unmarshal([]byte(text[:len(text)-1]), &e))
		require.True(t, e.Analyzed)
		require.Positive(t, e.Total)
		require.LessOrEqual(t, e.Fetched+e.Evaluated, e.Total)
		require.Positive(t, e.Evaluated)
		encoded += e.Encoded
		return e
	}
	const query = "query=sum(rate(m[5m]))/count(m)&start=1200&end=1800"
	do(t, a, httptest.NewRequest(http.MethodGet, "/api/v1/query_range?step=60&"+query+"&explain=true", nil)) // which fetches
	for _, path := range []string{"/api/v1/query_range?step=60&", "/api/v1/query_range?step=0.2&", "/query?step=60&"} {
		e := explained(path + query)
		require.Equal(t, "binary", e.Root.Kind)
		sum, count := e.Root.Children[0], e.Root.Children[1]
		require.GreaterOrEqual(t, e.Root.Node.Micros, sum.Node.Micros+count.Node.Micros)
		for _, d := range []*plan.Decision{sum, count} {
			window := d.Children[0]
			require.Equal(t, window.Node.Samples, d.Node.Samples)
			require.Positive(t, window.Node.Samples+window.Node.Kept)
			require.GreaterOrEqual(t, d.Node.Micros, window.Node.Micros)
			require.Equal(t, &plan.CacheWork{TilesKept: 2}, window.Node.Cache)
		}
		require.Equal(t, e.Root.Work.Samples, e.Root.Node.Samples)
	}
	explained("/api/v1/query?query=m&time=1800")
	e := explained("/api/v1/query_range?step=60&executor=prometheus&" + query)
	require.Equal(t, plan.OnPrometheus, e.Root.Executor)
	require.Nil(t, e.Root.Node)

	// What is fetched is told apart from what is evaluated, on every executor.
	for _, executor := range []string{"auto", "prometheus"} {
		a := newTestAPI(t, func(o *Options) {
			o.Queryable = selection.Storage{Source: cache.New(client, cache.Options{HostBytes: 1 << 20})}
		})
		w := do(t, a, httptest.NewRequest(http.MethodGet, "/query?step=60&explain=true&"+query+"&executor="+executor, nil))
		var got struct{ Explanation plan.Explanation }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Positive(t, got.Explanation.Fetched, executor)
		require.EqualValues(t, 4, got.Explanation.Cache.TilesFetched+got.Explanation.Cache.TilesKept)
	}
	require.Positive(t, encoded)
}

func TestBuildInfo(t *testing.T) {
	a := newTestAPI(t, nil)
	code, got := getJSON(t, a, "/api/v1/status/buildinfo")
	require.Equal(t, 200, code)
	var info map[string]any
	require.NoError(t, json.Unmarshal(got.Data, &info))
	require.Regexp(t, `^3\.\d+\.\d+`, info["version"])
	require.Equal(t, "promwarp", info["application"])
	require.Contains(t, info, "applicationVersion")
	require.NotContains(t, info, "features", "Grafana takes a server with features for Mimir")

	modules, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	var release, patch int
	_, module, _ := strings.Cut(string(modules), "github.com/prometheus/prometheus v0.")
	_, err = fmt.Sscanf(module, "%d.%d", &release, &patch)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d.%d.%d", release/100, release%100, patch), PrometheusVersion)
}

func TestOperating(t *testing.T) {
	var notReady, bad error
	a := newTestAPI(t, func(o *Options) {
		o.Ready = func() ([]string, error) { return []string{"one upstream is away"}, notReady }
		o.Reload, o.Lifecycle = func() error { return bad }, true
		o.Pprof = true
	})
	text := func(method, path string) (int, string) {
		w := do(t, a, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	for _, path := range []string{"/", "/-/healthy", "/-/ready", "/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
		code, _ := text(http.MethodGet, path)
		require.Equal(t, 200, code, path)
	}
	notReady = errors.New("shutting down")
	code, body := text(http.MethodGet, "/-/ready")
	require.Equal(t, 503, code)
	require.Contains(t, body, "shutting down")
	require.Contains(t, body, "one upstream is away")
	code, _ = text(http.MethodHead, "/-/healthy")
	require.Equal(t, 200, code)

	for _, path := range []string{"/-/reload", "/-/quit"} {
		code, body = text(http.MethodGet, path)
		require.Equal(t, 405, code)
		require.Equal(t, "Only POST or PUT requests allowed", body)
	}
	code, _ = text(http.MethodPost, "/-/reload")
	require.Equal(t, 200, code)
	bad = errors.New("unknown key")
	code, body = text(http.MethodPut, "/-/reload")
	require.Equal(t, 500, code)
	require.Contains(t, body, "unknown key")

	a = newTestAPI(t, func(o *Options) { o.Lifecycle = true })
	code, _ = text(http.MethodPost, "/-/reload")
	require.Equal(t, 404, code)
	a = newTestAPI(t, func(o *Options) { o.Reload = func() error { panic("it must not be called") } })
	code, body = text(http.MethodPost, "/-/reload")
	require.Equal(t, 403, code)
	require.Equal(t, "Lifecycle API is not enabled.", body)
	code, _ = text(http.MethodGet, "/debug/pprof/")
	require.Equal(t, 404, code)
	code, _ = text(http.MethodPost, "/-/quit")
	require.Equal(t, 403, code)
}

// TestLimitsOfQueries: every door that parses PromQL refuses what is too long or too deep, in
// Prometheus's form of a query that does not parse.
func TestLimitsOfQueries(t *testing.T) {
	h := newTestAPI(t, func(o *Options) { o.Dropper = &dropper{} })
	deep := url.QueryEscape(strings.Repeat("abs(", 20_000))
	for path, parameter := range map[string]string{
		"/api/v1/query?query=" + deep:                            "query",
		"/api/v1/query_range?start=1&end=2&step=1&query=" + deep: "query",
		"/query?query=" + deep:                                   "query",
		"/explain?query=" + deep:                                 "query",
		"/explain?analyze=true&query=" + deep:                    "query",
		"/api/v1/format_query?query=" + deep:                     "query",
		"/api/v1/parse_query?query=" + deep:                      "query",
		"/api/v1/series?match[]=" + deep:                         "match[]",
		"/api/v1/labels?match[]=" + deep:                         "match[]",
		"/api/v1/label/job/values?match[]=" + deep:               "match[]",
		"/api/v1/query_exemplars?start=1&end=2&query=" + deep:    "exemplars",
		"/api/v1/admin/cache/drop?match[]=" + deep:               "match[]",
		"/federate?match[]=" + deep:                              "",
	} {
		method := http.MethodGet
		if strings.Contains(path, "/admin/") {
			method = http.MethodPost
		}
		w := do(t, h, httptest.NewRequest(method, path, nil))
		if w.Code == http.StatusNotFound {
			t.Log("no such door here:", path[:30])
			continue
		}
		require.Equal(t, http.StatusBadRequest, w.Code, path[:30])
		require.Contains(t, w.Body.String(), "--query.max-depth allows is 2500", path[:30])
		if parameter != "" {
			require.Contains(t, w.Body.String(), `"errorType":"bad_data"`)
		}
		if parameter == "query" {
			require.Contains(t, w.Body.String(), `invalid parameter \"`+parameter+`\": `)
		}
		require.Less(t, w.Body.Len(), 500)
	}
}
