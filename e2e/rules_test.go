package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// totals returns a server's metrics, added up over their labels.
func totals(t *testing.T, base string) map[string]float64 {
	t.Helper()
	resp, err := http.Get(base + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	require.NoError(t, err)
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			out[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// The rules of a Prometheus that reads through promwarp come to what the Prometheus behind it says
// of the same time. Evaluated as of 90 s ago, as readers.md advises, each evaluation makes one fetch
// a selector at most, and what is settled is fetched once.
func TestRulesReadThroughPromwarp(t *testing.T) {
	t.Parallel()
	const shapes, offset = 10, 90 * time.Second
	now := time.Now()
	addr := mustFreeAddr(t)
	up := runServer(t, "Prometheus", addr, prometheusBin, prometheusArgs(addr, smallData(t, now.Add(time.Hour), 6), writeConfig(t, ""))...)
	addr = mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, promwarpArgs(addr, up.url)...)

	selectors := []string{"http_requests_total", `node_cpu_seconds_total{mode!="idle"}`}
	exprs := map[string]string{}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: all\n  interval: 1s\n  rules:\n")
	for i := range shapes {
		for k, s := range selectors {
			name := fmt.Sprintf("r:%d:%d", i, k)
			exprs[name] = fmt.Sprintf("sum by (job) (rate(%s[%dm]))", s, 5+7*i)
			fmt.Fprintf(&rules, "  - {record: '%s', expr: '%s'}\n", name, exprs[name])
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	reader := prometheus(t, mustFreeAddr(t), t.TempDir(), fmt.Sprintf("global: {rule_query_offset: %s}\nrule_files: ['%s']\nremote_read: [{url: '%s/api/v1/read', read_recent: true}]\n", model.Duration(offset), file, pw.url))

	iterations := func() int { return int(totals(t, reader.url)["prometheus_rule_group_iterations_total"]) }
	after := func(n int) map[string]float64 {
		require.Eventually(t, func() bool { return iterations() >= n }, 2*time.Minute, 200*time.Millisecond)
		return totals(t, pw.url)
	}
	first, last := after(3), after(20)
	fetches, evaluations := int(last["promwarp_cache_fetches_total"]), iterations()+1
	t.Logf("%d fetches in at most %d evaluations of %d rules", fetches, evaluations, len(exprs))
	// Longer windows fetch more once.
	require.LessOrEqual(t, fetches, len(selectors)*evaluations+len(exprs))
	require.Greater(t, int(last["promwarp_read_requests_total"]), 19*len(exprs))
	const settled = "promwarp_cache_tile_misses_total"
	require.LessOrEqual(t, last[settled]-first[settled], float64(len(selectors)), "a tile may have become settled meanwhile")
	require.Zero(t, totals(t, reader.url)["prometheus_rule_evaluation_failures_total"])

	checked := 0
	for name, expr := range exprs {
		a, err := ask(t, reader.url, queryPath, instantForm(fmt.Sprintf("{__name__=%q}[10s]", name), time.Now().Add(-offset))).parse()
		require.NoError(t, err)
		var recorded []series
		require.NoError(t, json.Unmarshal(a.Data.Result, &recorded))
		for _, s := range recorded {
			p := s.Values[0]
			form := instantForm(fmt.Sprintf(`(%s) and on (job) label_replace(vector(1), "job", %q, "", "")`, expr, s.Metric["job"]), now)
			form.Set("time", p.t)
			want, err := ask(t, up.url, queryPath, form).parse()
			require.NoError(t, err)
			var right []series
			require.NoError(t, json.Unmarshal(want.Data.Result, &right))
			require.Len(t, right, 1, "%s %s", name, s.String())
			require.Equal(t, right[0].Value.v, p.v, "%s at %s", expr, p.t)
			checked++
		}
	}
	require.Greater(t, checked, len(exprs))
}
