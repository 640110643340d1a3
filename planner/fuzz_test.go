package planner

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// FuzzPlan: whatever parses is planned without a panic, every node has someone who evaluates
// it, and the query is as it was.
func FuzzPlan(f *testing.F) {
	for _, s := range []string{
		`sum by (a) (rate(x[5m])) / on (a) group_left () y`, `label_replace(x, "type", "$1", "b", "(.*)")`, `max_over_time((x @ 100)[10m:1m] offset 5m)`,
		`topk(scalar(x), -y) or absent(z{a="1"})`, `histogram_quantile(0.9, histogram_quantile(time(), x))`, `info(x offset 5m, {a=~"b"})`,
		`quantile_over_time(1 / (2 - pi()), x[5m:])`, `vector(scalar(x) ^ -2) > bool 3`, `count_values("", x)`, `clamp(x, time(), 1 + 1)`, `histogram_quantiles(x, "q", 0.5, 1)`,
	} {
		f.Add(s, int64(3_600_000), int64(7_200_000), int64(60_000), false)
		f.Add(s, int64(0), int64(0), int64(0), true)
	}
	p := Limits{Depth: 100, Length: 2000, RegexpSize: 10_000}.Parser(parser.NewParser(promqltest.TestParserOpts))
	f.Fuzz(func(t *testing.T, query string, start, end, step int64, delayed bool) {
		if step < 0 || end < start || start < 0 || end > 1<<42 {
			return
		}
		expr, err := p.ParseExpr(query)
		if err != nil || expr.Type() != parser.ValueTypeVector && expr.Type() != parser.ValueTypeScalar {
			return
		}
		s := &parser.EvalStmt{
			Start: time.UnixMilli(start), End: time.UnixMilli(end), Interval: time.Duration(step) * time.Millisecond, LookbackDelta: 5 * time.Minute,
		}
		if s.Expr, err = promql.PreprocessExpr(expr, s.Start, s.End, s.Interval); err != nil {
			return
		}
		before := s.Expr.String()
		e := env()
		e.DelayedNameRemoval = delayed
		root := planned(t, s, e).Root
		require.Equal(t, before, s.Expr.String())
		root.Render(query)
		root.Walk(func(d *plan.Decision) {
			require.NotEmpty(t, d.Executor)
			require.True(t, d.Executor != plan.OnPrometheus || d.Reason != "", d.Expr)
		})
	})
}

// TestFacts: what is found once of an expression is what it says itself.
func TestFacts(t *testing.T) {
	for _, qs := range []string{
		`-(1 + 2) ^ 3 * pi()`, `sum(x) + (y - 1) * -z`, `max_over_time((x * 2)[5m:1m] offset 1m)`, `sum(rate(x[5m] @ 3)) or vector(time() - 1)`,
		`label_join(x, "a", "-", "b") > bool scalar(y)`, `topk(1 + 1, (((x))))`, `1 == bool 2`, `x @ 1 + y`,
	} {
		stmt := prepare(t, qs, 0, 600_000, 60_000)
		w := walker{facts: map[parser.Expr]*facts{}}
		w.learn(stmt.Expr)
		parser.Inspect(stmt.Expr, func(n parser.Node, _ []parser.Node) error {
			if e, ok := n.(parser.Expr); ok && e != nil {
				require.Equal(t, e.PositionRange(), w.facts[e].pos, "%s in %s", e, qs)
				require.Equal(t, e.Type(), w.facts[e].typ, "%s in %s", e, qs)
				require.Equal(t, strings.ContainsAny(e.String(), "xyz") && len(parser.ExtractSelectors(e)) > 0, w.facts[e].selects, "%s in %s", e, qs)
			}
			return nil
		})
	}
}

// TestPlanHeedsTheContext: planning ends with its context, in the words of Prometheus's
// engine.
func TestPlanHeedsTheContext(t *testing.T) {
	stmt := prepare(t, "x"+strings.Repeat(" + x", 500), 0, 600_000, 60_000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New(ctx, stmt, env())
	require.Equal(t, promql.ErrQueryCanceled("expression evaluation"), err)
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = New(ctx, stmt, env())
	require.Equal(t, promql.ErrQueryTimeout("expression evaluation"), err)
}

// TestPlanningIsLinear: each expression is compiled once, whatever is left
// to Prometheus's engine above and below it, and reasons do not grow with the depth.
func TestPlanningIsLinear(t *testing.T) {
	const n = 1000
	for name, qs := range map[string]string{
		"nested": strings.Repeat("sum(", n) + "histogram_count(x)" + strings.Repeat(")", n),
		"right":  strings.Repeat("(x + ", n) + "histogram_count(x)" + strings.Repeat(")", n),
		"left":   "histogram_count(x)" + strings.Repeat(" or x", n),
		"fine":   "x" + strings.Repeat(" * x", n),
		"idle":   strings.Repeat("sum(", n) + "max_over_time(x[30s:1m] @ 50)" + strings.Repeat(")", n),
	} {
		for _, delayed := range []bool{false, true} {
			stmt := prepare(t, qs, 0, 600_000, 60_000)
			e := env()
			e.DelayedNameRemoval = delayed
			p := planned(t, stmt, e)
			require.Less(t, p.w.steps, 20*n, name)
			p.Root.Walk(func(d *plan.Decision) { require.Less(t, len(d.Reason), 1000, name) })
		}
	}
}
