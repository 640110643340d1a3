package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

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
	qry, err := e.Engine.NewInstantQuery(WithMode(ctx, e.mode, false), q, opts, qs, ts)
	return withoutNotes{qry}, err
}

func (e inMode) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	qry, err := e.Engine.NewRangeQuery(WithMode(ctx, e.mode, false), q, opts, qs, start, end, interval)
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

// byScript counts the queries of each script of the suite that ran wholly, partly and
// not at all on an executor.
type byScript struct {
	*testing.T
	e       *Engine
	queries map[string][3]int
}

func (s *byScript) Run(name string, script func(*testing.T)) bool {
	counts := func() (n [3]int) {
		for i, how := range []string{"whole", "part", "none"} {
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
	scripts := &byScript{t, e, map[string][3]int{}}
	promqltest.RunBuiltinTests(scripts, inMode{e, Auto})
	requireOnCPU(t, e)
	for name, n := range scripts.queries {
		t.Logf("%s: %d queries wholly, %d partly, %d not at all", name, n[0], n[1], n[2])
	}
	// The others are over native histograms, or errors.
	for name, least := range map[string]int{"testdata/extended_vectors.test": 1270, "testdata/start_timestamps.test": 80} {
		require.GreaterOrEqual(t, scripts.queries[name][0]+scripts.queries[name][1], least, name)
	}
}

// requireOnCPU asserts how much of the suite really ran on cpuexec: of its
// 21 442 evaluations at least 11 100 have a part there, with 12 800 windows, 2350
// aggregations, 1350 operators on two vectors and hundreds of functions of
// classic histograms, and the rest has a reason. What is declined are native
// histograms.
func requireOnCPU(t *testing.T, e *Engine) {
	nodes := func(kind string) float64 { return testutil.ToFloat64(e.metrics.nodes.WithLabelValues("cpu", kind)) }
	queries := func(how string) float64 { return testutil.ToFloat64(e.metrics.queries.WithLabelValues(how)) }
	t.Logf("on cpuexec: %v windows, %v aggregations, %v operators between vectors, %v on sets, %v scalars, %v histogram functions, %v of absent, %v of labels, %v that sort, %v of info; queries wholly %v, partly %v, not at all %v; declined %v",
		nodes("window"), nodes("aggregate"), nodes("binary"), nodes("set"), nodes("scalar"), nodes("histogram"), nodes("absent"), nodes("labels"), nodes("sort"), nodes("info"),
		queries("whole"), queries("part"), queries("none"), declined(e))
	require.Greater(t, nodes("window"), 12_800.0)
	require.Greater(t, nodes("aggregate"), 2350.0)
	require.Greater(t, nodes("binary"), 900.0)
	require.Greater(t, nodes("set"), 450.0)
	require.Greater(t, nodes("scalar"), 80.0)
	require.Greater(t, nodes("histogram"), 900.0)
	require.Greater(t, nodes("absent"), 290.0)
	require.Greater(t, nodes("labels"), 170.0)
	require.Greater(t, nodes("sort"), 130.0)
	require.Greater(t, nodes("info"), 120.0)
	require.Greater(t, queries("whole")+queries("part"), 11_100.0)
}
