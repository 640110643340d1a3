package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/docs/markdown"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

const mixin = "../deploy/mixin/"

// Promtool takes the rules of the mixin, and alerts fire when they are to.
func TestMixinRules(t *testing.T) {
	bin, err := programs.FromPrometheus("promtool")
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
		"--cache.path="+t.TempDir(), "--gpu.mode=require", "--gpu.library="+cudatest.Library(t),
		"--config.file="+writeConfig(t, fmt.Sprintf("remote_read:\n- {name: up, url: %s/api/v1/read}\n- {name: down, url: http://127.0.0.1:1/api/v1/read, on_failure: warn}\n", up.URL)))
	for _, q := range []struct{ text, executor string }{
		{dashboard[0], "auto"}, {dashboard[0], "gpu"}, {"timestamp(up @ 2000 offset 3m)", "auto"}, // which is left to Prometheus's engine
	} {
		form := g.rangeForm(q.text)
		form.Set("executor", q.executor)
		require.Equal(t, http.StatusOK, ask(t, pw.URL, rangePath, form).code)
	}
	refused, err := http.Post(pw.URL+"/api/v1/read", "", nil)
	require.NoError(t, err)
	refused.Body.Close()
	require.Equal(t, http.StatusBadRequest, refused.StatusCode)
	has := labelsOfMetrics(t, pw.URL)
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

// What docs/getting-started.md has one type works, in front of a Prometheus: its server is started
// by its own line, and all other commands run one after the other in one shell. Building and the
// demonstration are left out: other tests have those.
func TestGettingStarted(t *testing.T) {
	up := upstream(t)
	page, err := os.ReadFile("../docs/getting-started.md")
	require.NoError(t, err)
	addr := mustFreeAddr(t)
	here := strings.NewReplacer("http://localhost:9090", up.URL, "localhost:9090", strings.TrimPrefix(up.URL, "http://"),
		"localhost:9201", addr, "$(date +%s)", strconv.FormatInt(up.grid.end.Unix(), 10), "prometheus_http_requests_total", "http_requests_total")
	var typed []string
	served := false
	for _, b := range markdown.Blocks(string(page)) {
		switch command, _, _ := strings.Cut(b.Text, "\n"); {
		case b.Language != markdown.Shell || strings.HasPrefix(command, "promwarp demo"):
		case strings.HasPrefix(command, "promwarp serve"):
			args := append(strings.Fields(here.Replace(command))[1:], "--web.listen-address="+addr)
			runServer(t, "promwarp", addr, promwarpBin, args...)
			served = true
		default:
			typed = append(typed, here.Replace(b.Text))
		}
	}
	require.True(t, served)
	shell := exec.Command("bash", "-euo", "pipefail", "-c", strings.Join(typed, "\n"))
	shell.Dir = t.TempDir()
	// What a release's archive has of what is typed, and a dashboard.
	const archive = "promwarp-0.1.0-linux-amd64"
	unpacked := filepath.Join(t.TempDir(), archive)
	require.NoError(t, os.Mkdir(unpacked, 0o700))
	require.NoError(t, os.Symlink(promwarpBin, filepath.Join(unpacked, "promwarp")))
	dashboard := `{"panels": [{"title": "Requests", "targets": [{"expr": "sum(rate(http_requests_total[$__rate_interval]))"}]}]}`
	require.NoError(t, os.WriteFile(filepath.Join(unpacked, "dashboard.json"), []byte(dashboard), 0o600))
	require.NoError(t, exec.Command("tar", "-czf", filepath.Join(shell.Dir, archive+".tar.gz"), "-C", filepath.Dir(unpacked), archive).Run())
	said, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", said)
	for _, want := range []string{"promwarp is ready", "first: 200 in ", "again: 200 in ", "cpu"} {
		require.Contains(t, string(said), want)
	}
	require.Equal(t, 3, strings.Count(string(said), "1 of 1 answers are the same to the bit"), "%s", said)
}

// promwarp starts as the unit, docker compose and the chart start it, and answers.
func TestDeployed(t *testing.T) {
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	unit, err := os.ReadFile("../deploy/systemd/promwarp.service")
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/promwarp (.*) \$PROMWARP_ARGS$`).FindSubmatch(unit)
	require.NotNil(t, start)
	const command = "serve --config.file=/etc/promwarp/promwarp.yml"
	for name, c := range map[string]struct{ config, command string }{
		"unit":    {"../deploy/packages/promwarp.yml", string(start[1])},
		"compose": {"../examples/compose/promwarp.yml", command},
		"chart":   {"../deploy/helm/promwarp/values.yaml", command},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(c.config)
			require.NoError(t, err)
			if name == "chart" {
				var values struct {
					Config map[string]any `yaml:"config"`
				}
				require.NoError(t, yaml.Unmarshal(text, &values))
				text, err = yaml.Marshal(values.Config)
				require.NoError(t, err)
			}
			addr := mustFreeAddr(t)
			config := regexp.MustCompile(`listen_address:\s.*`).ReplaceAllString(string(text), "listen_address: ["+addr+"]")
			config = regexp.MustCompile(`http://[a-z-]+(:9090)?/api`).ReplaceAllString(config, up.URL+"/api")
			config = strings.ReplaceAll(config, "/var/lib/promwarp", t.TempDir())
			command := strings.ReplaceAll(c.command, "/etc/promwarp/promwarp.yml", writeConfig(t, config))
			pw := runServer(t, "promwarp", addr, promwarpBin, strings.Fields(command)...)
			form := g.rangeForm(dashboard[0])
			want := ask(t, up.URL, rangePath, form)
			require.Equal(t, http.StatusOK, want.code)
			requireSame(t, want, ask(t, pw.URL, rangePath, form), false, name)
		})
	}
}

// grafanaDiffers are those of Grafana's requests that promwarp answers differently.
var grafanaDiffers = map[string]differences{
	"which server it is":         {"body": ownAnswer},
	"version detection":          {"body": ownAnswer},
	"a link to the series' page": {"Location": ownPage, "body": ownPage},
}

// What Grafana sends gets from promwarp what it gets from the Prometheus behind it.
func TestGrafana(t *testing.T) {
	t.Parallel()
	b := busy(t)
	time.Sleep(3 * time.Second) // for {recent} to have samples
	now := time.Now()
	r := strings.NewReplacer(
		"{start}", seconds(b.grid.start), "{end}", seconds(b.grid.end), "{nearend}", seconds(b.grid.end.Add(-time.Minute)),
		"{now}", seconds(now), "{recent}", seconds(now.Add(-2*time.Second)))
	file, err := os.ReadFile("testdata/grafana.txt")
	require.NoError(t, err)
	_, requests, _ := strings.Cut(string(file), "\n===")
	n := 0
	for part := range strings.SplitSeq(requests, "\n===") {
		name, request, ok := strings.Cut(strings.TrimSpace(part), "\n")
		require.True(t, ok, part)
		n++
		t.Run(name, func(t *testing.T) {
			e := exchange{request: r.Replace(request), differs: grafanaDiffers[name]}
			e.check(t, b.URL, b.promwarp.URL)
			e.check(t, b.URL, b.promwarp.URL) // and when it is kept
		})
	}
	require.GreaterOrEqual(t, n, 46)
}
