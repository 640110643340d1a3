package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// TestIdle: a query that reads no samples leaves nothing to an executor. The
// explanation says so, and nothing reports that anything was left.
func TestIdle(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	start, end := time.UnixMilli(600_000), time.UnixMilli(3_000_000)
	for _, qs := range []string{
		"1 + 1", "time()", "vector(1)", "hour()", "-time() * pi()", "vector(time()) > 3", "sum_over_time(vector(1)[5m:1m])",
		"max_over_time(temp[1s:1h])", `label_replace(vector(1), "a", "b", "", "")`,
	} {
		e := New(Options{Prometheus: plainOpts()})
		x, err := e.Explain(t.Context(), Request{Storage: st, Query: qs, Start: start, End: end, Step: time.Minute}, true)
		require.NoError(t, err, qs)
		x.Root.Walk(func(d *plan.Decision) {
			require.Equal(t, plan.OnPrometheus, d.Executor, "%s of %s", d.Expr, qs)
			require.True(t, d.Idle, "%s of %s", d.Expr, qs)
			require.Equal(t, "it reads no samples", d.Reason, "%s of %s", d.Expr, qs)
		})
		require.Equal(t, 1.0, testutil.ToFloat64(e.metrics.queries.WithLabelValues("idle")), qs)
		require.Zero(t, testutil.CollectAndCount(e.metrics.stayed), qs)
		require.NoError(t, ranged(t, as{e, Request{Mode: CPU, Strict: true}}, t.Context(), st, qs).Err, qs)
	}

	// Beside what reads samples it is an executor's.
	e := New(Options{Prometheus: plainOpts()})
	for _, qs := range []string{"sum(temp) or vector(1)", "hour() > 1 and on () temp", "temp * time()", "scalar(sum(temp)) + 1", "-scalar(sum(temp))"} {
		x, err := e.Explain(t.Context(), Request{Storage: st, Query: qs, Start: start, End: end, Step: time.Minute}, true)
		require.NoError(t, err, qs)
		x.Root.Walk(func(d *plan.Decision) { require.Equal(t, plan.OnCPU, d.Executor, "%s of %s", d.Expr, qs) })
		require.NotNil(t, x.Root.Work, qs)
		require.Positive(t, x.Root.Work.Samples, qs)
	}
	require.Equal(t, 5.0, testutil.ToFloat64(e.metrics.queries.WithLabelValues("whole")))
}

// TestLabelFunctions: functions of labels, and those that sort, answer as
// Prometheus does, and executors evaluate all of those that leave series apart.
func TestLabelFunctions(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 2)))
	for _, delayed := range []bool{false, true} {
		opts := plainOpts()
		opts.EnableDelayedNameRemoval = delayed
		ours := New(Options{Prometheus: opts})
		opts.Reg = nil
		stock := promql.NewEngine(opts)
		for qs, onCPU := range map[string]bool{
			`label_replace(temp, "x", "$1", "job", "j(.)")`:                                    true,
			`label_replace(temp, "x", "$1", "job", "j(")`:                                      false, // no regular expression
			`label_replace(temp, "", "$1", "job", "j")`:                                        false, // no label name
			`label_replace(temp, "job", "", "job", ".*")`:                                      false, // series become the same
			`label_replace(build_info, "version", "", "version", ".*")`:                        false, // one after the other
			`label_replace(temp, "__name__", "x", "job", "j0")`:                                true,
			`label_replace(rate(reqs_total[5m]), "__name__", "x", "job", "j0")`:                !delayed,
			`-label_replace(rate(reqs_total[5m]), "__name__", "x", "job", ".*")`:               true,
			`label_replace(rate(reqs_total[5m]), "__name__", "x", "", "")`:                     true,
			`label_replace({__name__=~"temp|odd"} + 0, "__name__", "x", "job", "j(.*)")`:       false,
			`label_join(rate(reqs_total[5m]), "__name__", "_", "__name__", "job")`:             true,
			`label_join({__name__=~"temp|odd"}, "__type__", "_", "__name__", "job")`:           true,
			`sum by (x) (label_replace(sum by (job) (temp), "x", "$1", "job", "j(.)"))`:        true,
			`sum by (x) (label_replace(-temp > 0, "x", "$1", "job", "j(.)") * 2)`:              true,
			`sum by (x) (label_replace(temp * on (job, instance) odd, "x", "y", "job", ".*"))`: true,
			`topk(3, label_join(label_replace(temp, "x", "$0", "job", ".*"), "y", "", "x"))`:   true,
			`absent(label_replace(nope{a="b"}, "x", "y", "", ""))`:                             true,
			`last_over_time(label_join(rate(reqs_total[5m]), "__type__", "_", "job")[10m:1m])`: delayed,
			`first_over_time((label_join(temp, "__unit__", "_", "job") or odd)[10m:1m])`:       delayed,
			`max_over_time(label_join(temp, "__unit__", "_", "job")[10m:1m])`:                  true,
			`sort(label_replace(temp, "x", "y", "", ""))`:                                      true,
			`sum(sort_desc(temp) > 1)`:                                                         true,
			`sort_by_label(temp @ 1000, "instance", "job")`:                                    true,
		} {
			want, got := ranged(t, stock, t.Context(), st, qs), ranged(t, ours, t.Context(), st, qs)
			require.Equal(t, summary(want, qs), summary(got, qs), qs)
			if want.Err != nil {
				require.False(t, onCPU, qs)
				continue
			}
			x, err := ours.Explain(t.Context(), Request{Storage: st, Query: qs, Start: time.Unix(600, 0), End: time.Unix(3000, 0), Step: time.Minute}, true)
			require.NoError(t, err, qs)
			left := false
			x.Root.Walk(func(d *plan.Decision) { left = left || (d.Own && d.Executor == plan.OnPrometheus) })
			require.Equal(t, onCPU, !left, qs)
		}
	}
}

// TestSetsWithDelayedNames: where only one side of an or is to lose its names
// later, Prometheus's engine keeps count of which.
func TestSetsWithDelayedNames(t *testing.T) {
	st := promqltest.LoadedStorage(t, "load 30s\n  a{i=\"1\"} 1x100\n  b{i=\"2\"} 2x100")
	opts := plainOpts()
	opts.EnableDelayedNameRemoval = true
	for qs, executor := range map[string]string{
		"sum(-a) or b": plan.OnCPU, "-a or vector(1)": plan.OnCPU, "vector(1) or -a * 2": plan.OnCPU, "sum by (i) (-a) or b": plan.OnCPU,
		"a or b": plan.OnCPU, "-a or -b": plan.OnCPU, "-a or b": plan.OnPrometheus,
		"-a and on () b": plan.OnCPU, "a unless -b": plan.OnCPU, "a > bool on () b": plan.OnCPU, "-a > on () -b": plan.OnCPU,
	} {
		opts.Reg = prometheus.NewRegistry()
		want := ranged(t, promql.NewEngine(opts), t.Context(), st, qs)
		opts.Reg = prometheus.NewRegistry()
		e := New(Options{Prometheus: opts})
		got := ranged(t, e, t.Context(), st, qs)
		require.Equal(t, summary(want, qs), summary(got, qs), qs)
		whole := testutil.ToFloat64(e.metrics.queries.WithLabelValues("whole"))
		require.Equal(t, executor == plan.OnCPU, whole == 1, qs)
	}
}

// TestInstantOrder: the operators that keep series, and the functions that sort
// them, answer an instant query in the order of Prometheus's heaps and sorts,
// ties and NaN included, also where more are kept than Go's sort takes in one
// piece; and so does what is evaluated once for every step.
func TestInstantOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	st := teststorage.New(t)
	app := st.Appender(t.Context())
	for i := range 120 {
		v := []float64{float64(r.IntN(9)), math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[max(r.IntN(9)-4, 0)]
		_, err := app.Append(0, labels.FromStrings("__name__", "m", "a", fmt.Sprintf("%03d", i), "g", fmt.Sprint(r.IntN(3))), 1000, v)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	for _, delayed := range []bool{false, true} {
		opts := plainOpts()
		opts.EnableDelayedNameRemoval = delayed
		ours := New(Options{Prometheus: opts})
		opts.Reg = nil
		stock := promql.NewEngine(opts)
		for range 500 {
			pick := func(s ...string) string { return s[r.IntN(len(s))] }
			op := pick("topk", "bottomk", "limitk", "limit_ratio")
			param := fmt.Sprint(1 + r.IntN(70))
			if op == "limit_ratio" {
				param = fmt.Sprint(math.Round(r.Float64()*200-100) / 100)
			}
			qs := op + pick("", " by (g)", " without (a)", " by (__name__)") + "(" + param + ", " + pick("m", "-m", "m % 4", "m > 3", "sum by (g, a) (m)", "topk(60, m)", "limitk(50, m)", "count without (__name__) (m)") + ")"
			if r.IntN(3) == 0 {
				in := pick("m", "m % 4", "m > 3", qs, `label_replace(m, "n", "$1", "a", "(.).*")`)
				qs = pick("sort("+in+")", "sort_desc("+in+")", "sort_by_label("+in+`, "g")`, "sort_by_label_desc("+in+`, "nope", "g", "a")`)
			}
			qs = pick(qs, qs, "sum("+qs+")", qs+" * 2", "group by (g) ("+qs+")")
			exec := func(e promql.QueryEngine) *promql.Result {
				q, err := e.NewInstantQuery(context.Background(), st, nil, qs, time.UnixMilli(2000))
				require.NoError(t, err)
				return q.Exec(context.Background())
			}
			require.Equal(t, summary(exec(stock), qs), summary(exec(ours), qs), qs)
			x, err := ours.Explain(t.Context(), Request{Storage: st, Query: qs, Start: time.UnixMilli(2000), End: time.UnixMilli(2000)}, true)
			require.NoError(t, err)
			require.Equal(t, plan.OnCPU, x.Root.Executor, qs)
		}
	}
}

// TestDefaultsAreAmple: what people write has at most a tenth of the selectors, and lists of at most a
// tenth of the items, that a request may have by default.
func TestDefaultsAreAmple(t *testing.T) {
	queries, _ := templateQueries(t)
	for _, of := range mixins(t) {
		queries = append(queries, of...)
	}
	require.Greater(t, len(queries), 1500)
	var most struct {
		selectors, matchers, labels int
		withSelectors, withList     string
	}
	for _, query := range queries {
		expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
		require.NoError(t, err, query)
		selectors := 0
		list := func(length *int, n int) {
			if n > max(most.matchers, most.labels) {
				most.withList = query
			}
			*length = max(*length, n)
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			switch n := n.(type) {
			case *parser.VectorSelector:
				selectors++
				list(&most.matchers, len(n.LabelMatchers)) // its name is one of them
			case *parser.AggregateExpr:
				list(&most.labels, len(n.Grouping))
			case *parser.BinaryExpr:
				if m := n.VectorMatching; m != nil {
					list(&most.labels, max(len(m.MatchingLabels), len(m.Include)))
				}
			}
			return nil
		})
		if selectors > most.selectors {
			most.selectors, most.withSelectors = selectors, query
		}
	}
	// The limits count as the tree does.
	exact := planner.Limits{Selectors: most.selectors, Items: max(most.matchers, most.labels)}
	for _, query := range queries {
		require.NoError(t, exact.Check(query), query)
	}
	require.Error(t, planner.Limits{Selectors: most.selectors - 1}.Check(most.withSelectors))
	t.Logf("%d expressions; at most %d selectors, %d matchers with the name, %d labels", len(queries), most.selectors, most.matchers, most.labels)
	require.LessOrEqual(t, 10*most.selectors, planner.DefaultSelectors, most.withSelectors)
	require.LessOrEqual(t, 10*max(most.matchers, most.labels), planner.DefaultItems, most.withList)
}
