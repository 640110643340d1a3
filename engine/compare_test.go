package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	config_util "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread"
)

// comparison holds promwarp's answers against those of Prometheus's engine:
// values bit by bit, the order of series, annotations with their positions, the
// type and text of errors, and sample statistics.
//
// Prometheus's own map order decides ties and some last bits, so a difference
// counts only where Prometheus never gives our answer itself, and one of order
// or last bits only where its own answer is always the same.
type comparison struct {
	stock *promql.Engine
	ours  *Engine
	asked promql.QueryEngine // ours, in some mode
	// undecided counts questions to which Prometheus's engine gives answers that
	// are not even alike, as for topk among the ties of count_values.
	undecided int
	// answered and failed count answers that have series and those that are
	// errors; the rest are empty.
	answered, failed int
}

func newComparison(delayedNameRemoval bool, workers int, options ...func(*promql.EngineOpts)) *comparison {
	opts := plainOpts()
	opts.Reg, opts.EnableDelayedNameRemoval, opts.NoStepSubqueryIntervalFn = nil, delayedNameRemoval, func(int64) int64 { return 30_000 }
	for _, set := range options {
		set(&opts)
	}
	c := &comparison{stock: promql.NewEngine(opts)}
	opts.Reg = prometheus.NewRegistry()
	c.ours = New(Options{Prometheus: opts, Workers: workers})
	c.asked = c.ours
	return c
}

// serving is where a server is that ends with the test.
func serving(t testing.TB, h http.Handler) *config_util.URL {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of statuses that Prometheus's handler writes in the middle
	srv.Start()
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	return &config_util.URL{URL: u}
}

// readsOf is Prometheus's handler of remote reads of a storage.
func readsOf(st storage.SampleAndChunkQueryable) http.Handler {
	return remote.NewReadHandler(slog.New(slog.DiscardHandler), nil, st, func() config.Config { return config.Config{} }, 0, 100, 1<<20)
}

// clientOf reads what a server has.
func clientOf(t testing.TB, c config.RemoteReadConfig, o remoteread.Options) *remoteread.Client {
	client, err := remoteread.NewClient(&c, o)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdle)
	return client
}

// useStarts makes the engines use start timestamps, or not.
func useStarts(use bool) func(*promql.EngineOpts) {
	return func(o *promql.EngineOpts) { o.UseStartTimestamps = use }
}

// question is a query and the times, in ms, that it is asked for; a step of 0
// makes it an instant query at start.
type question struct {
	query            string
	start, end, step int64
	allowed          float64 // how far values may be from Prometheus's, relative
	lookback         time.Duration
}

func (q question) String() string {
	return fmt.Sprintf("%s start %d end %d step %d", q.query, q.start, q.end, q.step)
}

// statistics reports whether those of each step are asked for: every other time.
func (q question) statistics() bool { return len(q.query)%2 == 0 }

// on makes the query on an engine.
func (q question) on(e promql.QueryEngine, st storage.Queryable) (promql.Query, error) {
	opts := promql.NewPrometheusQueryOpts(q.statistics(), q.lookback)
	if q.step == 0 {
		return e.NewInstantQuery(context.Background(), st, opts, q.query, time.UnixMilli(q.start))
	}
	return e.NewRangeQuery(context.Background(), st, opts, q.query, time.UnixMilli(q.start), time.UnixMilli(q.end), time.Duration(q.step)*time.Millisecond)
}

// compare asks both engines. It returns Prometheus's error where the question is
// none that can be asked, of a wrong type say.
func (c *comparison) compare(t testing.TB, st storage.Queryable, ask question) error {
	wq, werr := ask.on(c.stock, st)
	gq, gerr := ask.on(c.asked, st)
	if werr != nil || gerr != nil {
		require.Equal(t, fmt.Sprint(werr), fmt.Sprint(gerr), ask)
		return werr
	}
	defer wq.Close()
	defer gq.Close()
	want, got := wq.Exec(context.Background()), gq.Exec(context.Background())
	c.count(want)
	ws, gs := summary(want, ask.query), summary(got, ask.query)
	if ws != gs && !c.unsure(t, st, ask, ws, gs) {
		require.Equal(t, ws, gs, ask)
	}
	if want.Err == nil && ask.statistics() && !strings.Contains(ask.query, ":") { // subqueries: see docs/exactness.md
		a, b := wq.Stats().Samples, gq.Stats().Samples
		require.Equal(t, a.TotalSamples, b.TotalSamples, "total samples of %s", ask)
		require.Equal(t, a.SamplesRead, b.SamplesRead, "samples read of %s", ask)
		require.Equal(t, a.TotalSamplesPerStep, b.TotalSamplesPerStep, "samples per step of %s", ask)
	}
	return nil
}

func (c *comparison) count(r *promql.Result) {
	v, ok := r.Value.(promql.Vector)
	m, isMatrix := r.Value.(promql.Matrix)
	switch {
	case r.Err != nil:
		c.failed++
	case ok && len(v) > 0, isMatrix && len(m) > 0, !ok && !isMatrix:
		c.answered++
	}
}

// unsure is the control: it reports whether Prometheus's engine, asked again and
// again, gives the answer got too, or shows that the order of series and the last
// bits are not its own to say, or whether the query has a function whose answer
// may differ in its last bits.
func (c *comparison) unsure(t testing.TB, st storage.Queryable, ask question, want, got string) bool {
	switch {
	case c.ours.opts.Exact == plan.Bits:
		ask.allowed = 0
	case ask.allowed == 0 && inexact(t, ask.query):
		ask.allowed = 1e-12
	}
	if ask.allowed > 0 && near(got, want, ask.allowed, 0) {
		return true
	}
	differs := false
	for range 40 {
		q, err := ask.on(c.stock, st)
		require.NoError(t, err)
		again := summary(q.Exec(context.Background()), ask.query)
		q.Close()
		if again == got || (again != want && alike(got, want, ask)) {
			return true
		}
		differs = differs || !alike(again, want, ask)
	}
	if differs {
		c.undecided++
	}
	return differs
}

// taken is how many of the queries ran on an executor and how many did not.
func (c *comparison) taken() (whole, none float64) {
	of := func(how string) float64 { return testutil.ToFloat64(c.ours.metrics.queries.WithLabelValues(how)) }
	return of("whole"), of("none")
}

// inexact reports whether a query has a function that executors may compute to
// other last bits than Prometheus.
func inexact(t testing.TB, query string) (found bool) {
	expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
	require.NoError(t, err)
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			w, m := window.Named(n.Func.Name), vector.Named(n.Func.Name)
			found = found || (w != nil && w.Exactness != plan.BitIdentical) || (m != nil && m.Exactness != plan.BitIdentical)
		case *parser.AggregateExpr:
			a := aggregate.Named(n.Op.String())
			found = found || (a != nil && a.Exactness != plan.BitIdentical)
		}
		return nil
	})
	return found
}

// fromEnv is a number set in the environment.
func fromEnv(t testing.TB, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, name)
	return n
}

// alike reports whether two summaries of a query that Prometheus is not sure of
// are the same but for the order of series and the last bits of values, or what
// may be off in any case. Deviations of nearly equal values lose most of their
// bits to cancellation, or all of them.
func alike(a, b string, ask question) bool {
	tol, floor := max(1e-9, ask.allowed), 0.0
	if strings.Contains(ask.query, "std") {
		tol, floor = 1e-4, 1e-6
	}
	if dup := "found duplicate series"; strings.HasPrefix(a, "error") && strings.HasPrefix(b, "error") && strings.Contains(a, dup) && strings.Contains(b, dup) {
		return true // it names the two it came upon first
	}
	unsigned := strings.NewReplacer("=-0/1", "=0/0", " -0/1", " 0/0") // the least of 0 and -0 is the one that comes first
	sorted := func(s string) string {
		lines := strings.Split(unsigned.Replace(s), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	return near(sorted(a), sorted(b), tol, floor)
}

// near reports whether two summaries are the same but for values that differ by
// at most tol, relative, or by floor.
func near(a, b string, tol, floor float64) bool {
	fields := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" =/\n", r) })
	}
	return slices.EqualFunc(fields(a), fields(b), func(x, y string) bool {
		if x == y {
			return true
		}
		f, err := strconv.ParseFloat(x, 64)
		g, err2 := strconv.ParseFloat(y, 64)
		return err == nil && err2 == nil && math.Abs(f-g) <= max(floor, tol*math.Max(math.Abs(f), math.Abs(g)))
	})
}

// summary renders a result so that equal strings mean equal answers: values bit
// by bit, except that all NaNs are one.
func summary(r *promql.Result, qs string) string {
	var b strings.Builder
	if r.Err != nil {
		return fmt.Sprintf("error %T %s", r.Err, r.Err)
	}
	w, in := r.Warnings.AsStrings(qs, 0, 0)
	slices.Sort(w)
	slices.Sort(in)
	fmt.Fprintln(&b, w, in)
	val := func(f float64) string {
		if math.IsNaN(f) {
			return "NaN"
		}
		return strconv.FormatFloat(f, 'g', -1, 64) + fmt.Sprintf("/%x", math.Float64bits(f)>>63)
	}
	switch v := r.Value.(type) {
	case promql.Vector:
		for _, s := range v {
			fmt.Fprintln(&b, s.Metric, s.T, val(s.F), s.H)
		}
	case promql.Matrix:
		for _, s := range v {
			fmt.Fprint(&b, s.Metric)
			for _, p := range s.Floats {
				fmt.Fprint(&b, " ", p.T, "=", val(p.F))
			}
			for _, p := range s.Histograms {
				fmt.Fprint(&b, " ", p.T, "=", p.H)
			}
			fmt.Fprintln(&b)
		}
	default:
		fmt.Fprintln(&b, r.Value)
	}
	return b.String()
}

// suiteOpts are the options with which Prometheus runs its own suite.
func suiteOpts() promql.EngineOpts {
	return promql.EngineOpts{
		MaxSamples:               promqltest.DefaultMaxSamplesPerQuery,
		Timeout:                  100 * time.Second,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		EnableDelayedNameRemoval: true,
		UseStartTimestamps:       true,
		Parser:                   parser.NewParser(promqltest.TestParserOpts),
		Reg:                      prometheus.NewRegistry(),
	}
}

// inMode runs every query in a mode and takes the notes of a forced executor
// out of the answers, which the suite does not expect.
type inMode struct {
	*Engine
	mode Mode
}

func (e inMode) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	qry, err := as{e.Engine, Request{Mode: e.mode}}.NewInstantQuery(ctx, q, opts, qs, ts)
	return withoutNotes{qry}, err
}

func (e inMode) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	qry, err := as{e.Engine, Request{Mode: e.mode}}.NewRangeQuery(ctx, q, opts, qs, start, end, interval)
	return withoutNotes{qry}, err
}

type withoutNotes struct{ promql.Query }

func (q withoutNotes) Exec(ctx context.Context) *promql.Result {
	res := q.Query.Exec(ctx)
	for k, w := range res.Warnings {
		var note NotTakenWarning
		if errors.As(w, &note) {
			delete(res.Warnings, k)
		}
	}
	return res
}

// byScript counts the queries of each script of the suite that ran on an executor, and those that
// did not.
type byScript struct {
	*testing.T
	e       *Engine
	queries map[string][2]int
}

func (s *byScript) Run(name string, script func(*testing.T)) bool {
	counts := func() (n [2]int) {
		for i, how := range []string{"whole", "none"} {
			n[i] = int(testutil.ToFloat64(s.e.metrics.queries.WithLabelValues(how)))
		}
		return n
	}
	before := counts()
	ok := s.T.Run(name, script)
	after := counts()
	for i := range after {
		after[i] -= before[i]
	}
	s.queries[name] = after
	return ok
}

// TestPrometheusSuite runs Prometheus's own acceptance suite. Without GPUs and remembered results
// Auto evaluates as CPU does, which TestPrometheusSuiteOverRemoteRead asks for.
func TestPrometheusSuite(t *testing.T) {
	e := New(Options{Prometheus: suiteOpts(), Workers: 2})
	defer e.Close()
	scripts := &byScript{t, e, map[string][2]int{}}
	promqltest.RunBuiltinTests(scripts, inMode{e, Auto})
	requireOnCPU(t, e)
	for name, n := range scripts.queries {
		t.Logf("%s: %d queries on executors, %d not", name, n[0], n[1])
	}
	// The others are over native histograms, or errors.
	for name, least := range map[string]int{"testdata/extended_vectors.test": 1270, "testdata/start_timestamps.test": 80} {
		require.GreaterOrEqual(t, scripts.queries[name][0], least, name)
	}
}

// requireOnCPU asserts how much of the suite really ran on cpuexec: of its
// 21 442 evaluations at least 11 100 run there, with 12 500 windows, 2350
// aggregations, 1350 operators on two vectors and hundreds of functions of
// classic histograms, and the rest has a reason. What is declined are native
// histograms, and info() of something that is moved in time.
func requireOnCPU(t *testing.T, e *Engine) {
	nodes := func(kind string) float64 { return testutil.ToFloat64(e.metrics.nodes.WithLabelValues("cpu", kind)) }
	queries := func(how string) float64 { return testutil.ToFloat64(e.metrics.queries.WithLabelValues(how)) }
	t.Logf("on cpuexec: %v windows, %v aggregations, %v operators between vectors, %v on sets, %v scalars, %v histogram functions, %v of absent, %v of labels, %v that sort, %v of info; queries %v, not %v; declined %v",
		nodes("window"), nodes("aggregate"), nodes("binary"), nodes("set"), nodes("scalar"), nodes("histogram"), nodes("absent"), nodes("labels"), nodes("sort"), nodes("info"),
		queries("whole"), queries("none"), declined(e))
	require.Greater(t, nodes("window"), 12_500.0)
	require.Greater(t, nodes("aggregate"), 2350.0)
	require.Greater(t, nodes("binary"), 900.0)
	require.Greater(t, nodes("set"), 420.0)
	require.Greater(t, nodes("scalar"), 80.0)
	require.Greater(t, nodes("histogram"), 900.0)
	require.Greater(t, nodes("absent"), 290.0)
	require.Greater(t, nodes("labels"), 170.0)
	require.Greater(t, nodes("sort"), 130.0)
	require.Greater(t, nodes("info"), 40.0)
	require.Greater(t, queries("whole"), 11_100.0)
}
