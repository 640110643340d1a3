//go:build clients

package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// vmctl copies through promwarp each sample that it copies from the Prometheus behind
// it, once, in both of remote read's forms.
func TestVmctl(t *testing.T) {
	server, vmctl, err := buildVictoriaMetrics()
	require.NoError(t, err)
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	pw := promwarp(t, up.url)
	// More than one step, so that a sample on the edge of two would come twice.
	copied := func(t *testing.T, from string, args ...string) map[string][]string {
		to := victoriaMetrics(t, server)
		args = append([]string{"remote-read", "-s", "--disable-progress-bar", "--remote-read-src-addr=" + from, "--vm-addr=" + to,
			"--remote-read-filter-time-start=" + g.start.UTC().Format(time.RFC3339), "--remote-read-filter-time-end=" + g.end.UTC().Format(time.RFC3339),
			"--remote-read-step-interval=hour", "--remote-read-filter-label=__name__", "--remote-read-filter-label-value=.+"}, args...)
		out, err := exec.Command(vmctl, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, strings.ToLower(string(out)), "error")
		return exported(t, to)
	}
	for name, args := range map[string][]string{"samples": nil, "chunks": {"--remote-read-use-stream"}} {
		t.Run(name, func(t *testing.T) {
			want, got := copied(t, up.url, args...), copied(t, pw.url, args...)
			require.Greater(t, len(want), 400)
			require.Equal(t, len(want), len(got), "series")
			for series, samples := range want {
				require.Len(t, distinct(samples), len(samples), "copied from Prometheus: %s", series)
				if !slices.Equal(samples, got[series]) {
					missing := slices.DeleteFunc(slices.Clone(samples), func(s string) bool { return slices.Contains(got[series], s) })
					t.Fatalf("%s: %d samples, %d of them distinct, instead of %d; missing are %.200q", series, len(got[series]), len(distinct(got[series])), len(samples), missing)
				}
			}
		})
	}
}

func distinct(samples []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(samples)))
}

// victoriaMetrics starts an empty VictoriaMetrics that keeps samples that come twice,
// and returns its URL.
func victoriaMetrics(t *testing.T, bin string) string {
	t.Helper()
	addr := mustFreeAddr(t)
	return runServer(t, "VictoriaMetrics", addr, bin, "-httpListenAddr="+addr, "-storageDataPath="+t.TempDir(),
		"-retentionPeriod=100y", "-loggerLevel=WARN").url
}

// exported returns all samples of a VictoriaMetrics, by series, as times and values.
func exported(t *testing.T, url string) map[string][]string {
	t.Helper()
	fetch(t, url+"/internal/force_flush")
	all := map[string][]string{}
	for line := range strings.Lines(fetch(t, url+`/api/v1/export?match[]={__name__!=""}&reduce_mem_usage=1`)) {
		var part struct {
			Metric     map[string]string
			Values     []json.RawMessage
			Timestamps []json.Number
		}
		require.NoError(t, json.Unmarshal([]byte(line), &part))
		require.Len(t, part.Values, len(part.Timestamps))
		series, err := json.Marshal(part.Metric)
		require.NoError(t, err)
		for i, v := range part.Values {
			all[string(series)] = append(all[string(series)], part.Timestamps[i].String()+" "+string(v))
		}
	}
	// An export has the blocks of a series in any order.
	for _, samples := range all {
		slices.Sort(samples)
	}
	return all
}
