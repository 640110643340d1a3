package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/docs/markdown"
)

// What docs/getting-started.md has one type works, in front of a Prometheus: its server is started
// by its own line, and all other commands run one after the other in one shell. Building and the
// demonstration are left out: other tests have those.
func TestGettingStarted(t *testing.T) {
	up := upstream(t)
	page, err := os.ReadFile("../docs/getting-started.md")
	require.NoError(t, err)
	addr := mustFreeAddr(t)
	here := strings.NewReplacer("http://localhost:9090", up.url, "localhost:9090", strings.TrimPrefix(up.url, "http://"),
		"localhost:9201", addr, "$(date +%s)", strconv.FormatInt(up.grid.end.Unix(), 10), "prometheus_http_requests_total", "http_requests_total")
	var typed []string
	served := false
	for _, b := range markdown.Blocks(string(page)) {
		switch command, _, _ := strings.Cut(b.Text, "\n"); {
		case b.Language != markdown.Shell || command == "make build" || strings.HasPrefix(command, "promwarp demo"):
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
	dashboard := `{"panels": [{"title": "Requests", "targets": [{"expr": "sum(rate(http_requests_total[$__rate_interval]))"}]}]}`
	require.NoError(t, os.WriteFile(filepath.Join(shell.Dir, "dashboard.json"), []byte(dashboard), 0o600))
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(promwarpBin)+string(os.PathListSeparator)+os.Getenv("PATH"))
	said, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", said)
	for _, want := range []string{"promwarp is ready", "first: 200 in ", "again: 200 in ", "cpu"} {
		require.Contains(t, string(said), want)
	}
	require.Equal(t, 2, strings.Count(string(said), "1 of 1 answers are the same to the bit"), "%s", said)
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
		"unit":    {"../deploy/debian/promwarp.yml", string(start[1])},
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
			config = regexp.MustCompile(`http://[a-z-]+(:9090)?/api`).ReplaceAllString(config, up.url+"/api")
			config = strings.ReplaceAll(config, "/var/lib/promwarp", t.TempDir())
			command := strings.ReplaceAll(c.command, "/etc/promwarp/promwarp.yml", writeConfig(t, config))
			pw := runServer(t, "promwarp", addr, promwarpBin, strings.Fields(command)...)
			form := g.rangeForm(dashboard[0])
			want := ask(t, up.url, rangePath, form)
			require.Equal(t, http.StatusOK, want.code)
			requireSame(t, want, ask(t, pw.url, rangePath, form), false, name)
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
			e.check(t, b.url, b.promwarp.url)
			e.check(t, b.url, b.promwarp.url) // and when it is kept
		})
	}
	require.GreaterOrEqual(t, n, 46)
}
