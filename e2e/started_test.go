package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
