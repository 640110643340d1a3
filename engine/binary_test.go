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
	for _, c := range []struct{ query, err string }{
		// One to one.
		{"a{x='p'} + on (i) b", ""}, // two versions, one after the other
		{"a{x='p'} - ignoring (x, v) b", ""},
		{"a - ignoring (x, v) b", "multiple matches for labels: many-to-one matching must be explicit"},
		{"(a > 1e9) - ignoring (x, v) b", ""},
		{"b + on (i) late", "found duplicate series for the match group {i=\"1\"} on the right hand-side"},
		{"early + on (i) late", ""}, // at no step is there anything to match the duplicates with
		{"late + on (i) b", "multiple matches for labels: many-to-one matching must be explicit"},
		{"a + on () b{i!='1'}", "found duplicate series for the match group {}"},
		{"a > on (i, x) a", ""},
		{"a == on (i, x) (a + 0)", ""},
		{"a / a", ""},
		{"a + nothing", ""},
		// Many to one.
		{"a * on (i) group_left (v) b", ""},
		{"b * on (i) group_right (v) a", ""},
		{"b > on (i) group_right () a", ""},
		{"b <= bool on (i) group_right (v) a", ""},
		{"b * on (i) group_left (x) a", "found duplicate series for the match group {i=\"1\"} on the right hand-side"},
		{"a * on (i) group_right (v) b", "found duplicate series for the match group {i=\"1\"} on the left hand-side"},
		{"a * on (i) group_left (x) b", "multiple matches for labels: grouping labels must ensure unique matches"},
		{"{__name__=~'[ab]'} * on () group_left () sum(b)", ""},
		{"{__name__=~'a|late', x!='q', v!='2'} * on (__name__) group_left (x, v) sum by (__name__) ({__name__=~'a|late', i='1'})", "vector cannot contain metrics with the same labelset"},
		{"{__name__=~'early|c'} * on () group_left () sum(b)", "multiple matches for labels: grouping labels must ensure unique matches"},
		// NaN, ±Inf and signed zero.
		{"c + d", ""}, {"c == d", ""}, {"c != d", ""}, {"c >= bool d", ""}, {"c < d", ""},
		{"c != bool d", ""}, {"d > c", ""}, {"c <= d", ""}, {"c / d", ""}, {"c % d", ""},
		{"c ^ d", ""}, {"c atan2 d", ""},
		// Sets.
		{"a and on (i) b", ""},
		{"a and on () late", ""},
		{"a unless on (i) b", ""},
		{"a unless on (i) b{v='1'}", ""},
		{"a or b", ""},
		{"b or on (i) a", ""},
		{"a{x='q'} or a", ""}, // a series of both sides
		{"(a > 20) or (a * 1)", ""},
		{"nothing or a", ""}, {"a or nothing", ""}, {"a unless nothing", ""}, {"a and nothing", ""},
		{"sum by (i) (a) or vector(0)", ""},
		{"a or on () vector(time())", ""},
		// Scalars that vary by step.
		{"a * time()", ""}, {"scalar(b{i='1'}) > a", ""}, {"a > bool scalar(nothing)", ""},
		{"time() % 7 ^ scalar(c) * a", ""}, {"clamp(a, scalar(c), 40)", ""}, {"clamp(a, 0, scalar(d) - 1)", ""},
		{"round(a, time() / 100)", ""}, {"clamp_min(a, scalar(b{i='2'}))", ""}, {"vector(scalar(c)) + c{i='1'} - on () group_right () a", ""},
		{"sum(time() - a)", ""}, {"(a - scalar(c) + 2) * 2 > 5", ""},
		{"{__name__=~'early|c'} * time()", "vector cannot contain metrics with the same labelset"},
		// Operators in operators.
		{"a * on (i) group_left (v) b - on (i, x) group_left () (a + on (i, x) a)", ""},
		{"sum by (v) (a * on (i) group_left (v) b) / ignoring (v) group_left () sum(a and on (i) b)", ""},
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
			taken := testutil.ToFloat64(e.metrics.queries.WithLabelValues("whole"))
			if c.err != "" { // several matches are for Prometheus's engine to report
				taken += testutil.ToFloat64(e.metrics.queries.WithLabelValues("part"))
			}
			require.Equal(t, 1.0, taken)
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
