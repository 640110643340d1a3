package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

const mixin = "../deploy/mixin/"

// Promtool takes the rules of the mixin, and alerts fire when they are to.
func TestMixinRules(t *testing.T) {
	bin, err := buildFromPrometheus("promtool")
	require.NoError(t, err)
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", mixin + "rendered/rules.yaml", mixin + "rendered/alerts.yaml"},
		{"test", "rules", mixin + "tests.yaml"},
	} {
		out, err := exec.Command(bin, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// What the mixin asks of promwarp a running promwarp has: every metric, with the labels that are
// matched or grouped by.
func TestMixinMetrics(t *testing.T) {
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	addr := mustFreeAddr(t)
	// All that has metrics: a disk, a GPU, an upstream that is down.
	pw := runServer(t, "promwarp", addr, promwarpBin, "serve", "--web.listen-address="+addr,
		"--cache.path="+t.TempDir(), "--gpu.mode=require", "--gpu.library="+cudatest.Library(t), "--gpu.constants=",
		"--config.file="+writeConfig(t, fmt.Sprintf("remote_read:\n- {name: up, url: %s/api/v1/read}\n- {name: down, url: http://127.0.0.1:1/api/v1/read, on_failure: warn}\n", up.url)))
	for _, q := range []struct{ text, executor string }{
		{dashboard[0], "auto"}, {dashboard[0], "gpu"}, {"timestamp(up @ 2000 offset 3m)", "auto"}, // which is left to Prometheus's engine
	} {
		form := g.rangeForm(q.text)
		form.Set("executor", q.executor)
		require.Equal(t, http.StatusOK, ask(t, pw.url, rangePath, form).code)
	}
	refused, err := http.Post(pw.url+"/api/v1/read", "", nil)
	require.NoError(t, err)
	refused.Body.Close()
	require.Equal(t, http.StatusBadRequest, refused.StatusCode)
	has := labelsOfMetrics(t, pw.url)
	for _, expr := range mixinExpressions(t) {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
		require.NoError(t, err, expr)
		parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok || strings.Contains(s.Name, ":") || s.Name == "up" {
				return nil // a rule's, or Prometheus's own
			}
			labels, ok := has[s.Name]
			require.True(t, ok, "promwarp has no metric %s: %s", s.Name, expr)
			var asked []string
			for _, m := range s.LabelMatchers {
				asked = append(asked, m.Name)
			}
			for _, p := range path {
				if a, ok := p.(*parser.AggregateExpr); ok {
					asked = append(asked, a.Grouping...)
				}
			}
			for _, l := range asked {
				if !slices.Contains([]string{"__name__", "job", "instance"}, l) {
					require.Contains(t, labels, l, "%s has no such label: %s", s.Name, expr)
				}
			}
			return nil
		})
	}
}

// labelsOfMetrics are the labels of each metric that a server exposes, by its name in queries.
func labelsOfMetrics(t *testing.T, server string) map[string][]string {
	resp, err := http.Get(server + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(resp.Body)
	require.NoError(t, err)
	has := map[string][]string{}
	for name, f := range families {
		for _, m := range f.Metric {
			labels := []string{}
			for _, l := range m.Label {
				labels = append(labels, l.GetName())
			}
			if m.Histogram == nil {
				has[name] = append(has[name], labels...)
				continue
			}
			has[name+"_count"] = append(has[name+"_count"], labels...)
			has[name+"_sum"] = append(has[name+"_sum"], labels...)
			has[name+"_bucket"] = append(has[name+"_bucket"], append(labels, "le")...)
		}
	}
	return has
}

// mixinExpressions are all that the mixin's rules and its dashboard ask.
func mixinExpressions(t *testing.T) (all []string) {
	for _, file := range []string{"alerts.yaml", "rules.yaml"} {
		var rules struct {
			Groups []struct {
				Rules []struct {
					Expr string `yaml:"expr"`
				} `yaml:"rules"`
			} `yaml:"groups"`
		}
		text, err := os.ReadFile(mixin + "rendered/" + file)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(text, &rules))
		for _, group := range rules.Groups {
			for _, r := range group.Rules {
				all = append(all, r.Expr)
			}
		}
	}
	var board struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(mixin + "rendered/promwarp.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &board))
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			all = append(all, strings.ReplaceAll(q.Expr, "$__rate_interval", "1m"))
		}
	}
	require.Greater(t, len(all), 40)
	return all
}
