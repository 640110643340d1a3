// Package mixin has no code; its tests render the mixin and look at what comes out.
package mixin

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-jsonnet"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the rendered files anew")

// dashboard is what the tests read of a dashboard.
type dashboard struct {
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

// TestRendered: the files that are committed are what the mixin renders to.
func TestRendered(t *testing.T) {
	vm := jsonnet.MakeVM()
	for file, what := range map[string]string{
		"alerts.yaml":   "std.manifestYamlDoc(mixin.prometheusAlerts, quote_keys=false)",
		"rules.yaml":    "std.manifestYamlDoc(mixin.prometheusRules, quote_keys=false)",
		"promwarp.json": "std.manifestJsonEx(mixin.grafanaDashboards['promwarp.json'], ' ')",
	} {
		t.Run(file, func(t *testing.T) {
			vm.StringOutput = true
			text, err := vm.EvaluateAnonymousSnippet("test.jsonnet", "local mixin = import 'mixin.libsonnet'; "+what)
			require.NoError(t, err)
			path := filepath.Join("rendered", file)
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			committed, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(committed), text, "go test ./mixin -update renders it anew")
		})
	}
}

// TestRules: Prometheus takes both files, and each alert says what it is about.
func TestRules(t *testing.T) {
	runbook, err := os.ReadFile("../../docs/failures.md")
	require.NoError(t, err)
	for _, file := range []string{"alerts.yaml", "rules.yaml"} {
		groups, errs := rulefmt.ParseFile(filepath.Join("rendered", file), false, model.UTF8Validation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
		require.Empty(t, errs)
		for _, g := range groups.Groups {
			require.NotEmpty(t, g.Rules)
			for _, r := range g.Rules {
				if r.Alert == "" {
					continue
				}
				require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
				require.NotEmpty(t, r.Annotations["summary"], r.Alert)
				require.NotEmpty(t, r.Annotations["description"], r.Alert)
				require.Contains(t, string(runbook), "| `"+strings.TrimPrefix(r.Alert, "Promwarp")+"` |", "docs/failures.md says what to do")
			}
		}
	}
}

// variables are what Grafana puts for those of the dashboard.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$job", "promwarp", "$instance", ".*")

// TestDashboard: every query parses, ids differ, and panels lie side by side.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("rendered/promwarp.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Panels)
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.Empty(t, ids[p.ID], "%s has the id of another panel", p.Title)
		ids[p.ID] = p.Title
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "%s lies over another panel", p.Title)
				taken[at] = p.Title
			}
		}
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, "%s: a row asks nothing, a panel does", p.Title)
		for _, q := range p.Targets {
			expr := variables.Replace(q.Expr)
			require.NotContains(t, expr, "$")
			_, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
			require.NoError(t, err, "%s: %s", p.Title, expr)
		}
	}
}
