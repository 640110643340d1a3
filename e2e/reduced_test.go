package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reducible are queries that paths below /api/v1/read/ are for, and some that look like them.
var reducible = []string{
	`sum by (job) (kube_pod_memory_working_set_bytes)`,
	`sum(node_memory_bytes)`,
	`avg by (job, type) (node_memory_bytes)`,
	`avg without (instance) (process_resident_memory_bytes)`,
	`min by (job) (up)`,
	`max without (instance, job) (up)`,
	`count by (job) (up)`,
	`count without (instance) (node_memory_bytes)`,
	`group by (job, __name__) ({__name__=~"up|process_resident_memory_bytes"})`,
	`sum(up) / count(up)`,
	`sum by (job) (up) / on (job) count by (job) (up) * on (job) group_left () max by (job) (process_resident_memory_bytes)`,
	`sum(sum by (instance) (node_memory_bytes))`,
	`topk(3, sum by (instance) (node_memory_bytes))`,
	`sum((up))`,
	`sum(-up)`,
	`sum by (job) (abs(up))`,
	`sum without () (up)`,
	`stddev by (job) (process_resident_memory_bytes)`,
	`quantile by (job) (0.9, process_resident_memory_bytes)`,
	`up`,
	`timestamp(up)`,
	`process_resident_memory_bytes{job="job-1"} offset 1h`,
	`node_memory_bytes @ end()`,
	`sum by (job) (node_memory_bytes offset 10m)`,
	`absent(up{job="job-1"})`,
	`label_replace(up{job="job-7"}, "host", "$1", "instance", "(.*):.*")`,
	`histogram_quantile(0.9, http_request_duration_seconds_bucket{job="job-1"})`,
	`max_over_time(process_resident_memory_bytes[30m])`,
	`min_over_time(process_resident_memory_bytes[2m])`,
	`last_over_time(up[3m])`,
	`max_over_time(up[1d:1h])`,
	`max_over_time(sum by (job) (up)[2h:5m])`,
	`rate(http_requests_total{job="job-1"}[2m])`,
	`sum by (job) (rate(http_requests_total[5m]))`,
	`rate(http_requests_total{job="job-1"}[1h])`,
	`increase(http_requests_total{job="job-1"}[10m])`,
	`delta(node_memory_bytes[20m])`,
	`irate(http_requests_total{job="job-1"}[5m])`,
	`changes(up[1h])`,
	`resets(http_requests_total{job="job-1"}[1h])`,
	`avg_over_time(node_memory_bytes[5m])`,
	`sum_over_time(process_resident_memory_bytes[1m] offset 1h)`,
	`sum by (job) (up) unless on (job) (sum by (job) (up offset 12h) > 3)`,
}

// TestReducedReaders: Prometheus, of this release and an older one, answers the same from all
// samples and from what is left of them.
func TestReducedReaders(t *testing.T) {
	older, err := olderPrometheus()
	if err != nil {
		t.Logf("no other Prometheus: %v", err)
	}
	up := upstream(t)
	pw := promwarp(t, up.url)
	for _, bin := range []string{prometheusBin, older} {
		if bin == "" {
			continue
		}
		out, err := exec.Command(bin, "--version").CombinedOutput()
		require.NoError(t, err)
		version := regexp.MustCompile(`version (\S+)`).FindStringSubmatch(string(out))[1]
		t.Run(version, func(t *testing.T) {
			reader := func(path string) *process {
				addr := mustFreeAddr(t)
				config := fmt.Sprintf("remote_read:\n- url: %s/api/v1/read%s\n  read_recent: true\n", pw.url, path)
				return runServer(t, "reader"+path, addr, bin, prometheusArgs(addr, t.TempDir(), writeConfig(t, config))...)
			}
			all, readers := reader(""), map[string]*process{"thin": reader("/thin"), "aggregate": reader("/aggregate")}
			before := reducedReads(t, pw.url)
			coarse := up.grid
			coarse.step *= 10
			coarse.start, coarse.end = coarse.start.Truncate(coarse.step), coarse.end.Truncate(coarse.step)
			for _, q := range reducible {
				for at, form := range map[string]url.Values{queryPath: instantForm(q, coarse.end), rangePath: coarse.rangeForm(q)} {
					want := ask(t, all.url, at, form)
					require.Equal(t, http.StatusOK, want.code, "%s", want.body)
					for path, r := range readers {
						requireSame(t, want, ask(t, r.url, at, form), false, path+": "+q)
					}
				}
			}
			after := reducedReads(t, pw.url)
			t.Logf("%v, before %v", after, before)
			for _, sent := range []string{"thin thinned", "aggregate thinned", "aggregate aggregated"} {
				require.Greater(t, after[sent]-before[sent], 15.0, sent)
			}
		})
	}
}

// reducedReads is how many queries a promwarp has reduced, by path and what was sent.
func reducedReads(t *testing.T, url string) map[string]float64 {
	res, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	n := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^promwarp_read_reduced_total\{path="(.*)",reason=".*",sent="(.*)"\} (.*)$`).FindAllStringSubmatch(string(body), -1) {
		v, err := strconv.ParseFloat(strings.TrimSpace(m[3]), 64)
		require.NoError(t, err)
		n[m[1]+" "+m[2]] += v
	}
	return n
}
