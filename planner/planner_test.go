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
func planned(t testing.TB, stmt *parser.EvalStmt, e Env) ([]*Part, *plan.Decision) {
	parts, root, err := Plan(t.Context(), stmt, e)
	require.NoError(t, err)
	return parts, root
}

var update = flag.Bool("update", false, "write testdata/plans.txt anew")

// TestPlan holds testdata/plans.txt, queries and the parts planned of each: what is computed, on which
// grid, and what reads which times, as "node | start+interval*steps | reads from..to [| outer n]
// [| subquery]" from 3600 s to 7200 s, a step of a minute.
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
		parts, root := planned(t, stmt, env())
		require.Equal(t, before, stmt.Expr.String(), "planning must not change the query")
		for _, p := range parts {
			fmt.Fprintf(&got, "\t%s\n", render(p))
			require.Same(t, p.Expr, *p.Slot)
		}
		root.Walk(func(d *plan.Decision) {
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

func render(p *Part) string {
	sec := func(ms int64) string { return strings.TrimSuffix(fmt.Sprintf("%g", float64(ms)/1000), ".0") }
	grid := func(g plan.Grid) string { return fmt.Sprintf("%s+%s*%d", sec(g.Start), sec(g.Interval), g.Steps) }
	s := p.Node.String()
	s += infosOf(p.Node)
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
	if p.Outer > 0 {
		s += fmt.Sprintf(" | outer %d", p.Outer)
	}
	if p.InSubquery {
		s += " | subquery"
	}
	return s
}

// TestExcluded: an excluded selector takes the nodes above it with it and no
// other, and the explanation gives the reason.
func TestExcluded(t *testing.T) {
	stmt := prepare(t, `sum(rate(a[5m])) + sum(rate(b[5m]))`, 0, 600_000, 60_000)
	e := env()
	e.Excluded = map[posrange.PositionRange]string{{Start: 9, End: 10}: "it is odd"}
	parts, root := planned(t, stmt, e)
	require.Len(t, parts, 1)
	require.Equal(t, "sum(rate(b[5m]))", parts[0].Node.String())
	require.Equal(t, "its input stays with Prometheus's engine: it is odd", root.Children[0].Reason)
}

// TestExcludedOperator: an operator that an executor has declined stays with
// Prometheus's engine, and so does what is above it, but not its sides.
func TestExcludedOperator(t *testing.T) {
	const qs = `sum(rate(foo[5m]) * b) + scalar(c)`
	at := func(s string) posrange.PositionRange {
		i := strings.Index(qs, s)
		return posrange.PositionRange{Start: posrange.Pos(i), End: posrange.Pos(i + len(s))}
	}
	for excluded, want := range map[string][]string{
		"":                       {qs},
		qs:                       {"sum(rate(foo[5m]) * b)", "scalar(c)"},
		"sum(rate(foo[5m]) * b)": {"rate(foo[5m]) * b", "scalar(c)"},
		"rate(foo[5m]) * b":      {"rate(foo[5m])", "b", "scalar(c)"},
		"foo":                    {"b", "scalar(c)"},
		"scalar(c)":              {"sum(rate(foo[5m]) * b)", "c"},
	} {
		e := env()
		e.Excluded = map[posrange.PositionRange]string{at(excluded): "it is odd"}
		parts, root := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
		var got []string
		for _, p := range parts {
			got = append(got, p.Node.String())
		}
		require.Equal(t, want, got, excluded)
		var reasons []string
		root.Walk(func(d *plan.Decision) { reasons = append(reasons, d.Reason) })
		require.Equal(t, excluded != "", strings.Contains(strings.Join(reasons, ""), "it is odd"), excluded)
	}
}

// TestDelayedNameRemoval: an or of which only one side loses its names at the
// end of the query stays, since an executor's answer says it for all series.
func TestDelayedNameRemoval(t *testing.T) {
	for qs, parts := range map[string]int{"-a or b": 2, "-a or -b": 1, "a or b": 1, "-a and b": 1, "a unless -b": 1,
		"sum by (x) (-a or b)": 1, "sum by (__name__) (-a or b)": 2, "topk(1, -a or b)": 2, "max(topk(1, -a or b))": 1, "abs(-a or b)": 1, "(-a or b) > 1": 2,
		"(-a or b) > on (x) c": 1} {
		for _, delayed := range []bool{false, true} {
			e := env()
			e.DelayedNameRemoval = delayed
			got, _ := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
			want := 1
			if delayed {
				want = parts
			}
			require.Len(t, got, want, "%s delayed %v", qs, delayed)
		}
	}
}

// TestDelayedNames: setting a name keeps it from being removed at the end of the
// query. Where that is so for some series only, the function stays.
func TestDelayedNames(t *testing.T) {
	for qs, want := range map[string]string{
		`label_replace(x, "__name__", "y", "job", "(.*)")`:  `label_replace(x, "__name__", "y", "job", "(.*)")`,
		`label_replace(-x, "__name__", "y", "job", "(.*)")`: `-x drops`,
		`label_replace(-x, "a", "y", "job", "(.*)")`:        `label_replace(-x, "a", "y", "job", "(.*)") drops`,
		`label_join(-x, "__name__", "y", "job")`:            `label_join(-x, "__name__", "y", "job")`,
		`label_join(-x, "job", "y", "__name__")`:            `label_join(-x, "job", "y", "__name__") drops`,
		`sort(-x)`:                                          `sort(-x) drops`,
	} {
		e := env()
		e.DelayedNameRemoval = true
		parts, _ := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
		require.Len(t, parts, 1, qs)
		got := parts[0].Node.String()
		if parts[0].Node.DropsName() {
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
		parts, _ := planned(t, prepare(t, c.query, c.start, c.end, 60_000), env())
		require.Len(t, parts, 1, c.query)
		n := parts[0].Node
		if once, ok := n.(*plan.Once); ok {
			n = once.Input
		} else {
			require.Equal(t, 1, parts[0].Grid.Steps)
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
	parts, _ := planned(t, prepare(t, `sum(rate(foo[5m]))`, 600_000, 600_000, 0), env())
	require.Equal(t, plan.Grid{Start: 600_000, Interval: 1, Steps: 1}, parts[0].Grid)
}

// infosOf says when the infos at and below n read info series.
func infosOf(n plan.Node) (s string) {
	if n, ok := n.(*plan.Info); ok {
		s = " at"
		if n.Fixed != nil {
			s += fmt.Sprint(" ", *n.Fixed/1000)
		}
		if n.Fixed == nil || n.Offset != 0 {
			s += " " + (time.Duration(n.Offset) * time.Millisecond).String()
		}
	}
	for _, in := range n.Inputs() {
		s += infosOf(in)
	}
	return s
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
			parts, _ := planned(t, prepare(t, name+"("+args+")", 0, 600, 60), env())
			require.Len(t, parts, 1)
			require.Same(t, f, parts[0].Node.(*plan.Window).Func)
		})
	}
}
