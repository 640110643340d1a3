package engine

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// TestOperatorsBetweenVectors is a table of matchings: each answer or error is
// Prometheus's, whether or not the executor finds it ambiguous and declines, and
// then both sides are still evaluated there.
func TestOperatorsBetweenVectors(t *testing.T) {
	st := promqltest.LoadedStorage(t, `
load 30s
  a{i="1", x="p"} 1+1x100
  a{i="1", x="q"} 2+1x30 stale _x68
  a{i="2", x="p"} _x10 5+2x20 _x10 5+2x60
  a{i="3", x="p"} 7x100
  b{i="1", v="1"} 10+1x30 stale _x68
  b{i="1", v="2"} _x32 20+1x68
  b{i="2", v="1"} 3x100
  b{i="4", v="1"} 4x100
  late{i="1", v="1"} _x60 1x40
  late{i="1", v="2"} _x60 2x40
  early{i="1"} 1x30 stale
  c{i="1"} 0 1 NaN -1 Inf -0 0x94
  d{i="1"} 0 NaN NaN 1 Inf 0 -0x94
`)
	const (
		whole     = "" // on the executor
		ambiguous = "series match several others at one step, or become the same, which Prometheus's engine reports"
	)
	for _, c := range []struct{ query, declined, err string }{
		// One to one.
		{"a{x='p'} + on (i) b", whole, ""}, // two versions, one after the other
		{"a{x='p'} - ignoring (x, v) b", whole, ""},
		{"a - ignoring (x, v) b", ambiguous, "multiple matches for labels: many-to-one matching must be explicit"},
		{"(a > 1e9) - ignoring (x, v) b", whole, ""},
		{"b + on (i) late", ambiguous, "found duplicate series for the match group {i=\"1\"} on the right hand-side"},
		{"early + on (i) late", whole, ""}, // at no step is there anything to match the duplicates with
		{"late + on (i) b", ambiguous, "multiple matches for labels: many-to-one matching must be explicit"},
		{"a + on () b{i!='1'}", ambiguous, "found duplicate series for the match group {}"},
		{"a > on (i, x) a", whole, ""},
		{"a == on (i, x) (a + 0)", whole, ""},
		{"a / a", whole, ""},
		{"a + nothing", whole, ""},
		// Many to one.
		{"a * on (i) group_left (v) b", whole, ""},
		{"b * on (i) group_right (v) a", whole, ""},
		{"b > on (i) group_right () a", whole, ""},
		{"b <= bool on (i) group_right (v) a", whole, ""},
		{"b * on (i) group_left (x) a", ambiguous, "found duplicate series for the match group {i=\"1\"} on the right hand-side"},
		{"a * on (i) group_right (v) b", ambiguous, "found duplicate series for the match group {i=\"1\"} on the left hand-side"},
		{"a * on (i) group_left (x) b", ambiguous, "multiple matches for labels: grouping labels must ensure unique matches"},
		{"{__name__=~'[ab]'} * on () group_left () sum(b)", whole, ""},
		{"{__name__=~'a|late', x!='q', v!='2'} * on (__name__) group_left (x, v) sum by (__name__) ({__name__=~'a|late', i='1'})", ambiguous, "vector cannot contain metrics with the same labelset"},
		{"{__name__=~'early|c'} * on () group_left () sum(b)", ambiguous, "multiple matches for labels: grouping labels must ensure unique matches"},
		// NaN, ±Inf and signed zero.
		{"c + d", whole, ""}, {"c == d", whole, ""}, {"c != d", whole, ""}, {"c >= bool d", whole, ""}, {"c < d", whole, ""},
		{"c != bool d", whole, ""}, {"d > c", whole, ""}, {"c <= d", whole, ""}, {"c / d", whole, ""}, {"c % d", whole, ""},
		{"c ^ d", whole, ""}, {"c atan2 d", whole, ""},
		// Sets.
		{"a and on (i) b", whole, ""},
		{"a and on () late", whole, ""},
		{"a unless on (i) b", whole, ""},
		{"a unless on (i) b{v='1'}", whole, ""},
		{"a or b", whole, ""},
		{"b or on (i) a", whole, ""},
		{"a{x='q'} or a", whole, ""}, // a series of both sides
		{"(a > 20) or (a * 1)", whole, ""},
		{"nothing or a", whole, ""}, {"a or nothing", whole, ""}, {"a unless nothing", whole, ""}, {"a and nothing", whole, ""},
		{"sum by (i) (a) or vector(0)", whole, ""},
		{"a or on () vector(time())", whole, ""},
		// Scalars that vary by step.
		{"a * time()", whole, ""}, {"scalar(b{i='1'}) > a", whole, ""}, {"a > bool scalar(nothing)", whole, ""},
		{"time() % 7 ^ scalar(c) * a", whole, ""}, {"clamp(a, scalar(c), 40)", whole, ""}, {"clamp(a, 0, scalar(d) - 1)", whole, ""},
		{"round(a, time() / 100)", whole, ""}, {"clamp_min(a, scalar(b{i='2'}))", whole, ""}, {"vector(scalar(c)) + c{i='1'} - on () group_right () a", whole, ""},
		{"sum(time() - a)", whole, ""}, {"(a - scalar(c) + 2) * 2 > 5", whole, ""},
		{"{__name__=~'early|c'} * time()", "it selects several metrics whose series become the same when their names are dropped", "vector cannot contain metrics with the same labelset"},
		// Operators in operators.
		{"a * on (i) group_left (v) b - on (i, x) group_left () (a + on (i, x) a)", whole, ""},
		{"sum by (v) (a * on (i) group_left (v) b) / ignoring (v) group_left () sum(a and on (i) b)", whole, ""},
	} {
		t.Run(c.query, func(t *testing.T) {
			opts := plainOpts()
			e := New(Options{Prometheus: opts, Workers: 2})
			want := ranged(t, promql.NewEngine(plainOpts()), t.Context(), st, c.query)
			got := ranged(t, e, t.Context(), st, c.query)
			require.Equal(t, summary(want, c.query), summary(got, c.query))
			if c.err != "" {
				require.ErrorContains(t, got.Err, c.err)
			} else {
				require.NoError(t, got.Err)
			}
			if c.declined == whole {
				require.Equal(t, 1.0, testutil.ToFloat64(e.metrics.queries.WithLabelValues("whole")))
				return
			}
			require.Equal(t, 1.0, testutil.ToFloat64(e.metrics.declined.WithLabelValues(c.declined)))
			require.Equal(t, 1.0, testutil.ToFloat64(e.metrics.queries.WithLabelValues("part")), "the sides stay on the executor")
		})
	}
}

// TestSetsWithDelayedNames: where only one side of an or is to lose its names
// later, Prometheus's engine keeps count of which.
func TestSetsWithDelayedNames(t *testing.T) {
	st := promqltest.LoadedStorage(t, "load 30s\n  a{i=\"1\"} 1x100\n  b{i=\"2\"} 2x100")
	opts := plainOpts()
	opts.EnableDelayedNameRemoval = true
	for qs, executor := range map[string]string{
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
