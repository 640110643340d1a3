package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

// busyServer is a Prometheus that has something to say at every door: data of some
// hours, a target that it scrapes, metadata, exemplars, rules, an alert and an
// Alertmanager; and a promwarp in front of it.
type busyServer struct {
	*process
	promwarp *process
	grid     grid // of the data
}

// exposition is what the target exposes.
const exposition = `# HELP shop_orders Orders taken.
# TYPE shop_orders counter
shop_orders_total{kind="card"} 42 # {trace_id="4bf92f3577b34da6"} 1 1700000000.5
shop_orders_total{kind="cash"} 7
# HELP shop_wait_seconds How long customers waited.
# TYPE shop_wait_seconds histogram
# UNIT shop_wait_seconds seconds
shop_wait_seconds_bucket{le="1.0"} 3 # {trace_id="00f067aa0ba902b7"} 0.4
shop_wait_seconds_bucket{le="+Inf"} 5
shop_wait_seconds_sum 6.5
shop_wait_seconds_count 5
# EOF
`

// busy starts a busyServer.
func busy(t *testing.T) busyServer {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		_, _ = io.WriteString(w, exposition)
	}))
	t.Cleanup(target.Close)
	rules := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(rules, []byte(`groups:
- name: shop
  rules:
  - {record: "job:shop_orders:sum", expr: sum by (job) (shop_orders_total), labels: {team: shop}}
  - {alert: Always, expr: vector(1) == 1, labels: {severity: page}, annotations: {summary: "{{ $value }} is one"}}
- name: other
  interval: 1h
  rules:
  - {alert: Never, expr: vector(1) == 0, for: 5m}
`), 0o600))
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s, external_labels: {region: eu, replica: a}}
scrape_configs:
- {job_name: shop, static_configs: [{targets: ["%[1]s"], labels: {zone: north}}]}
- {job_name: dropped, static_configs: [{targets: ["%[1]s"]}], relabel_configs: [{action: drop}]}
rule_files: ["%[2]s"]
alerting: {alertmanagers: [{static_configs: [{targets: ["127.0.0.1:1"]}]}]}
`, strings.TrimPrefix(target.URL, "http://"), rules)
	b := busyServer{grid: smallGrid(6)}
	addr := mustFreeAddr(t)
	args := append(programs.PrometheusArgs(addr, smallData(t, b.grid.end, 6), writeConfig(t, config)), "--enable-feature=exemplar-storage")
	b.process = runServer(t, "Prometheus", addr, prometheusBin, args...)
	b.promwarp = promwarp(t, b.URL)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for path, has := range map[string]string{
			"/api/v1/metadata":          "shop_orders",
			"/api/v1/alerts":            "Always",
			"/api/v1/targets":           `"health":"up"`,
			"/api/v1/label/team/values": "shop",
			"/api/v1/query_exemplars?query=shop_orders_total&start=1600000000&end=1900000000": "4bf92f3577b34da6",
		} {
			e := exchange{request: "GET " + path}
			r, err := e.send(b.URL)
			if assert.NoError(c, err) {
				assert.Contains(c, string(r.body), has)
			}
		}
	}, time.Minute, 100*time.Millisecond)
	return b
}
