package queries

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

func TestAll(t *testing.T) {
	require.GreaterOrEqual(t, len(All), 30)
	names, exprs := map[string]bool{}, map[string]bool{}
	p := parser.NewParser(parser.Options{})
	for _, q := range All {
		require.False(t, names[q.Name], q.Name)
		require.False(t, exprs[q.Expr], q.Expr)
		names[q.Name], exprs[q.Expr] = true, true
		_, err := p.ParseExpr(q.Expr)
		require.NoError(t, err, q.Name)
		require.LessOrEqual(t, q.Range/q.Step, time.Duration(11_000), q.Name) // Prometheus answers no more points
	}
}

// requireMade checks that a query parses, and asks for metrics and labels that are generated.
func requireMade(t *testing.T, families []string, name, query string) {
	made := map[string]map[string]bool{}
	for _, f := range families {
		words := strings.Fields(f)
		require.Contains(t, []string{"counter", "gauge", "fixed"}, words[0], f)
		require.Nil(t, made[words[1]], f)
		made[words[1]] = map[string]bool{"__name__": true}
		for _, l := range words[3:] {
			name, _, _ := strings.Cut(l, "=")
			made[words[1]][name] = true
		}
	}
	e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, name)
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			require.NotNil(t, made[s.Name], "%s: %s", name, s.Name)
			for _, m := range s.LabelMatchers {
				require.True(t, made[s.Name][m.Name], "%s: %s has no label %s", name, s.Name, m.Name)
			}
		}
		return nil
	})
}

// TestObjectives: there are 200 rules, none twice, each window of Sloth's and Pyrra's is there, and each
// rule asks for what is generated.
func TestObjectives(t *testing.T) {
	rules, exprs := Objectives(), map[string]bool{}
	require.Len(t, rules, 200)
	forms := map[string]int{}
	for _, rule := range rules {
		requireMade(t, objectiveFamilies, rule.Name, rule.Expr)
		require.NotContains(t, rule.Expr, "$")
		require.False(t, exprs[rule.Expr], rule.Expr)
		exprs[rule.Expr] = true
		forms[rule.Name]++
	}
	for form, n := range forms {
		require.Equal(t, map[bool]int{true: slothServices, false: pyrraServices}[strings.HasPrefix(form, "Sloth")], n, form)
	}
	for _, form := range []string{"Sloth errors 3d", "Sloth errors 30d", "Pyrra burn rate 4d", "Pyrra increase 30d"} {
		require.Contains(t, forms, form)
	}
}

// TestExporters: each query of the dashboards has a title of its own, and asks for what is generated.
func TestExporters(t *testing.T) {
	titles, dashboards := map[string]bool{}, map[string]int{}
	for _, q := range Exporters {
		require.False(t, titles[q.Name], q.Name)
		titles[q.Name] = true
		dashboard, _, _ := strings.Cut(q.Name, ": ")
		dashboards[dashboard]++
		requireMade(t, ExporterFamilies, q.Name, q.Expr)
	}
	require.Len(t, dashboards, 5)
	for dashboard, n := range dashboards {
		require.GreaterOrEqual(t, n, 10, dashboard)
	}
}

func TestForm(t *testing.T) {
	q := Query{"n", "up", 6 * time.Hour, 15 * time.Second}
	end := time.UnixMilli(1_700_000_000_500)
	form := q.Form(end, 24*time.Hour)
	require.Equal(t, "end=1700000000.5&query=up&start=1699978400.5&step=15", form.Encode())
	require.Equal(t, "1699996400.5", q.Form(end, time.Hour).Get("start"), "cut to the data")
}
