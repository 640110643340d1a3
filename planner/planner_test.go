package planner

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// prepare parses and preprocesses a query as Prometheus's engine does.
func prepare(t *testing.T, qs string, start, end, step int64) *parser.EvalStmt {
	expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(qs)
	require.NoError(t, err)
	s := &parser.EvalStmt{
		Start: time.UnixMilli(start), End: time.UnixMilli(end), Interval: time.Duration(step) * time.Millisecond,
		LookbackDelta: 5 * time.Minute,
	}
	s.Expr, err = promql.PreprocessExpr(expr, s.Start, s.End, s.Interval)
	require.NoError(t, err)
	return s
}

func env() Env { return Env{NoStepSubqueryInterval: func(int64) int64 { return 60_000 }} }

// planned plans a statement that is planned in time.
func planned(t testing.TB, stmt *parser.EvalStmt, e Env) *Plan {
	p, err := New(t.Context(), stmt, e)
	require.NoError(t, err)
	return p
}

var update = flag.Bool("update", false, "write testdata/plans.txt anew")

// TestPlan holds testdata/plans.txt, queries and the plan of each: what is computed, on which grid, and
// what reads which times, as "node | start+interval*steps | reads from..to" from 3600 s to 7200 s, a
// step of a minute; or why there is none.
func TestPlan(t *testing.T) {
	const file = "testdata/plans.txt"
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		query := strings.TrimSpace(line)
		if strings.HasPrefix(line, "\t") {
			continue
		}
		got.WriteString(line)
		if query == "" || strings.HasPrefix(query, "#") {
			continue
		}
		stmt := prepare(t, query, 3_600_000, 7_200_000, 60_000)
		before := stmt.Expr.String()
		p := planned(t, stmt, env())
		require.Equal(t, before, stmt.Expr.String(), "planning must not change the query")
		fmt.Fprintf(&got, "\t%s\n", render(p))
		p.Root.Walk(func(d *plan.Decision) {
			if d.Executor == plan.OnPrometheus {
				require.NotEmpty(t, d.Reason, d.Expr)
			}
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	require.Equal(t, string(want), got.String(), "write it anew: go test ./planner -run TestPlan -update")
}

func render(p *Plan) string {
	if p.Node == nil {
		reason := p.Root.Reason
		p.Root.Walk(func(d *plan.Decision) {
			if d.Own {
				reason = d.Reason
			}
		})
		return "-- " + reason
	}
	sec := func(ms int64) string { return strings.TrimSuffix(fmt.Sprintf("%g", float64(ms)/1000), ".0") }
	grid := func(g plan.Grid) string { return fmt.Sprintf("%s+%s*%d", sec(g.Start), sec(g.Interval), g.Steps) }
	s := p.Node.String()
	if a, ok := p.Node.(*plan.Absent); ok {
		s += " " + a.Labels.String()
	}
	if sort, ok := p.Node.(*plan.Sort); ok && sort.Ranged {
		s += " (ranged)"
	}
	s += " | " + grid(p.Grid)
	var below func(n plan.Node, g plan.Grid)
	below = func(n plan.Node, g plan.Grid) {
		switch x := n.(type) {
		case *plan.Subwindow:
			g = x.Inner
			s += fmt.Sprintf(" | %s on %s", x.Input, grid(g))
		case *plan.Once:
			g = x.Grid(g)
			s += " | once"
		case *plan.Window:
			mint, maxt := x.Reads(g)
			s += fmt.Sprintf(" | reads %s..%s", sec(mint), sec(maxt))
		}
		for _, in := range n.Inputs() {
			below(in, g)
		}
	}
	below(p.Node, p.Grid)
	return s
}

// TestLeave: because of an expression the whole query goes to Prometheus's engine. The explanation
// gives the reason at the expression, and names it everywhere else.
func TestLeave(t *testing.T) {
	const qs, whole = `sum(rate(foo[5m]) * b) + scalar(c) * -(2)`, "the whole query stays with Prometheus's engine: it is odd"
	for _, odd := range []string{qs, "sum(rate(foo[5m]) * b)", "rate(foo[5m]) * b", "foo", "scalar(c)"} {
		p := planned(t, prepare(t, qs, 0, 600_000, 60_000), env())
		require.NotNil(t, p.Node)
		i := strings.Index(qs, odd)
		p.Leave(posrange.PositionRange{Start: posrange.Pos(i), End: posrange.Pos(i + len(odd))}, "it is odd")
		require.Nil(t, p.Node)
		p.Root.Render(qs)
		var own []string
		p.Root.Walk(func(d *plan.Decision) {
			require.Equal(t, plan.OnPrometheus, d.Executor)
			switch {
			case d.Own:
				own = append(own, d.Expr)
				require.Equal(t, "it is odd", d.Reason)
			case d.Idle:
				require.Contains(t, []string{"-(2)", "(2)", "2"}, d.Expr)
			default:
				require.Equal(t, whole, d.Reason, d.Expr)
			}
		})
		require.Equal(t, []string{odd}, own)
	}
}

// TestDelayedNameRemoval: an or of which only one side loses its names at the
// end of the query stays, since an executor's answer says it for all series, unless the series of the
// other side have none.
func TestDelayedNameRemoval(t *testing.T) {
	for qs, taken := range map[string]bool{"-a or b": false, "-a or -b": true, "a or b": true, "-a and b": true, "a unless -b": true,
		"sum by (x) (-a or b)": true, "sum by (__name__) (-a or b)": false, "topk(1, -a or b)": false, "max(topk(1, -a or b))": true,
		"abs(-a or b)": true, "(-a or b) > 1": false, "(-a or b) > on (x) c": true,
		"sum(rate(a[5m])) or vector(0)": true, "rate(a[5m]) or vector(1)": true, "vector(1) or a": true, "sum by (x) (-a) or b": true,
		"sum without (x) (-a) or b": false, "sum by (__type__) (-a) or b": false, "(a / b) or rate(c[5m])": true,
		"(a / on (x) group_left (__name__) b) or -c": false, "topk(1, sum by (x) (-a)) * 2 or b": true,
		"histogram_quantile(0.9, sum by (le) (rate(a[5m]))) or b": true, "histogram_quantile(0.9, a) or b": false,
		`label_replace(sum(-a) or b, "__type__", "c", "", "")`: false, "info(sum(-a) or b)": false,
	} {
		for _, delayed := range []bool{false, true} {
			e := env()
			e.DelayedNameRemoval = delayed
			p := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
			require.Equal(t, taken || !delayed, p.Node != nil, "%s delayed %v", qs, delayed)
		}
	}
}

// TestDelayedNames: setting a name keeps it from being removed at the end of the
// query. Where that is so for some series only, the function stays.
func TestDelayedNames(t *testing.T) {
	for qs, want := range map[string]string{
		`label_replace(x, "__name__", "y", "job", "(.*)")`:  `label_replace(x, "__name__", "y", "job", "(.*)")`,
		`label_replace(-x, "__name__", "y", "job", "(.*)")`: `label_replace(-x, "__name__", "y", "job", "(.*)")`,
		`label_replace(-x, "__name__", "y", "job", "(.+)")`: "",
		`label_replace(-x, "__name__", "y", "job", "")`:     "",
		`label_replace(-x, "__name__", "y", "", "")`:        `label_replace(-x, "__name__", "y", "", "")`,
		`label_replace(-x, "__name__", "y", "", "a")`:       "",
		`label_replace(-x, "a", "y", "job", "(.*)")`:        `label_replace(-x, "a", "y", "job", "(.*)") drops`,
		`label_join(-x, "__name__", "y", "job")`:            `label_join(-x, "__name__", "y", "job")`,
		`label_join(-x, "job", "y", "__name__")`:            `label_join(-x, "job", "y", "__name__") drops`,
		`sort(-x)`:                                          `sort(-x) drops`,
		`sum(-x) or y`:                                      `sum(-x) or y`,
		`vector(1) or -y`:                                   `vector(1) or -y drops`,
	} {
		e := env()
		e.DelayedNameRemoval = true
		p := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
		if p.Node == nil {
			require.Empty(t, want, qs)
			continue
		}
		got := p.Node.String()
		if p.Node.DropsName() {
			got += " drops"
		}
		require.Equal(t, want, got, qs)
	}
}

// TestSortRanged: whether an evaluation is at a single time decides whether
// sorting has an effect, not how many steps there are.
func TestSortRanged(t *testing.T) {
	for _, c := range []struct {
		query      string
		start, end int64
		ranged     bool
	}{
		{`sort(x)`, 600_000, 600_000, false},
		{`sort(x)`, 600_000, 600_001, true},
		{`sort(x @ 7)`, 600_000, 900_000, false},
		{`max_over_time(sort(x)[1m:1m])`, 600_000, 600_000, false},
		{`max_over_time(sort(x)[1m:1m])`, 630_000, 630_000, true},
	} {
		p := planned(t, prepare(t, c.query, c.start, c.end, 60_000), env())
		require.NotNil(t, p.Node, c.query)
		n := p.Node
		if once, ok := n.(*plan.Once); ok {
			n = once.Input
		} else {
			require.Equal(t, 1, p.Grid.Steps)
		}
		if sub, ok := n.(*plan.Subwindow); ok {
			require.Equal(t, 1, sub.Inner.Steps, c.query)
			n = sub.Input
		}
		require.Equal(t, c.ranged, n.(*plan.Sort).Ranged, "%s %d..%d", c.query, c.start, c.end)
	}
}

// TestInstant: an instant query is a grid of one step.
func TestInstant(t *testing.T) {
	p := planned(t, prepare(t, `sum(rate(foo[5m]))`, 600_000, 600_000, 0), env())
	require.Equal(t, plan.Grid{Start: 600_000, Interval: 1, Steps: 1}, p.Grid)
}

// TestEveryFunction: each function of range vectors that has a definition is planned.
func TestEveryFunction(t *testing.T) {
	for _, name := range window.Names() {
		t.Run(name, func(t *testing.T) {
			f := window.Named(name)
			args, types := "m[5m]", []parser.ValueType{parser.ValueTypeMatrix}
			switch f.Param {
			case plan.ParamBefore:
				args, types = "0.5, "+args, append([]parser.ValueType{parser.ValueTypeScalar}, types...)
			case plan.ParamAfter:
				args, types = args+", 0.5", append(types, parser.ValueTypeScalar)
			case plan.TwoParamsAfter:
				args, types = args+", 0.5, 0.5", append(types, parser.ValueTypeScalar, parser.ValueTypeScalar)
			}
			if parser.Functions[name] == nil { // promwarp's own, of which Prometheus's parser does not know
				parser.Functions[name] = &parser.Function{Name: name, ArgTypes: types, ReturnType: parser.ValueTypeVector}
				defer delete(parser.Functions, name)
			}
			p := planned(t, prepare(t, name+"("+args+")", 0, 600, 60), env())
			require.NotNil(t, p.Node)
			require.Same(t, f, p.Node.(*plan.Window).Func)
		})
	}
}
