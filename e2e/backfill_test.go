package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// liveRules are what a Prometheus evaluates that scrapes itself; live is replaced by past to fill in.
const liveRules = `groups:
- name: all
  interval: 2s
  query_offset: 6s
  labels: {team: a}
  rules:
  - {record: 'live:samples:rate', expr: 'rate(prometheus_tsdb_head_samples_appended_total[20s])'}
  - {record: 'live:samples:avg', expr: 'avg_over_time(live:samples:rate[10s])'}
  - {record: 'live:requests', expr: 'prometheus_http_requests_total % 3 > 0', labels: {kind: some}}
  - {alert: 'live', expr: 'prometheus_build_info > 0', for: 4s, labels: {severity: '{{ $labels.job }}'}}
`

// What promwarp fills in is, bit for bit, what a real Prometheus recorded that evaluated the same rules
// at the same times, stale markers and the states of alerts included.
func TestBackfillSameAsLive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live, past := filepath.Join(dir, "live.yml"), filepath.Join(dir, "past.yml")
	require.NoError(t, os.WriteFile(live, []byte(liveRules), 0o600))
	require.NoError(t, os.WriteFile(past, []byte(strings.ReplaceAll(liveRules, "live", "past")), 0o600))
	begun := time.Now()
	addr, data := mustFreeAddr(t), filepath.Join(dir, "data")
	p := prometheus(t, addr, data, fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: ['%s']\nscrape_configs: [{job_name: self, static_configs: [{targets: ['%s']}]}]\n", live, addr))
	for range 40 { // so that some requests come to be counted, and go
		ask(t, p.URL, queryPath, instantForm("vector(1)", time.Now()))
		time.Sleep(time.Second)
	}
	missed := totals(t, p.URL)["prometheus_rule_group_iterations_missed_total"]
	end := time.Now().Add(-8 * time.Second)

	out := filepath.Join(dir, "out")
	text, err := exec.Command(promwarpBin, "backfill", "--upstream.url="+p.URL, "--rules.path="+live, "--alerts",
		"--start="+begun.Format(time.RFC3339Nano), "--end="+end.Format(time.RFC3339Nano), "--output="+out, past).CombinedOutput()
	require.NoError(t, err, string(text))
	t.Logf("%s; %v iterations missed", text, missed)
	p.signal(os.Interrupt)
	p.wait(t, time.Minute)

	want, got := samplesOf(t, data, "live"), samplesOf(t, out, "past")
	compared, markers := 0, 0
	for series, samples := range want {
		if missed > 0 && strings.Contains(series, "avg") { // which reads what was not recorded
			continue
		}
		for at, bits := range samples {
			if at > end.UnixMilli() {
				continue
			}
			filled, ok := got[series][at]
			require.True(t, ok, "%s at %d", series, at)
			if bits == staleBits && missed > 0 {
				continue
			}
			require.Equal(t, bits, filled, "%s at %d", series, at)
			compared++
			if bits == staleBits {
				markers++
			}
		}
	}
	t.Logf("%d samples compared, %d of them stale markers", compared, markers)
	require.Greater(t, compared, 50)
	if missed == 0 {
		require.Positive(t, markers)
	}
}

const staleBits = 0x7ff0000000000002

// samplesOf are the samples that rules recorded in a data directory, by series and time, as bits. The name
// in series is left out.
func samplesOf(t *testing.T, dir, name string) map[string]map[int64]uint64 {
	t.Helper()
	db, err := tsdb.Open(dir, nil, nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	defer db.Close()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", name+":.*|ALERTS.*"))
	all := map[string]map[int64]uint64{}
	for set.Next() {
		of := map[int64]uint64{}
		for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; {
			at, v := it.At()
			of[at] = math.Float64bits(v)
		}
		all[strings.ReplaceAll(set.At().Labels().String(), name, "")] = of
	}
	require.NoError(t, set.Err())
	return all
}

// TestBackfillSpeed fills in as promtool does, from the same Prometheus, and says what each took. It runs
// where BACKFILL_SPEED has rules, days, series, and the part of the range that promtool does, as in
//
//	cd e2e && BACKFILL_SPEED='20 3 500 1' go test -run TestBackfillSpeed -v -timeout 10h .
func TestBackfillSpeed(t *testing.T) {
	text := os.Getenv("BACKFILL_SPEED")
	if text == "" {
		t.Skip("BACKFILL_SPEED is not set")
	}
	var count, days, series int
	var part float64
	_, err := fmt.Sscan(text, &count, &days, &series, &part)
	require.NoError(t, err)
	promtool, err := programs.FromPrometheus("promtool")
	require.NoError(t, err)
	dir := t.TempDir()
	end := time.Now().Add(-time.Hour).Truncate(2 * time.Hour)
	start := end.Add(-time.Duration(days) * 24 * time.Hour)
	p, stats, err := programs.StartFilled(t.Context(), prometheusBin, dir, dataset.Options{
		Start: start.Add(-2 * time.Hour).UnixMilli(), End: end.UnixMilli(), Series: series, Seed: 1,
	})
	require.NoError(t, err)
	defer p.Kill()
	t.Logf("%d series, %d samples, %d rules, %d days", stats.Series, stats.Samples, count, days)

	shapes := []string{
		`sum by (job) (rate(http_requests_total[%s]))`, `sum by (job, code) (increase(http_requests_total[%s]))`,
		`sum by (job) (rate(http_requests_total{code=~"5.."}[%[1]s])) / sum by (job) (rate(http_requests_total[%[1]s]))`,
		`histogram_quantile(0.99, sum by (le, job) (rate(http_request_duration_seconds_bucket[%s])))`,
		`avg by (job, type) (avg_over_time(node_memory_bytes[%s]))`, `avg by (instance) (rate(node_cpu_seconds_total{mode!="idle"}[%s]))`,
		`max by (namespace) (max_over_time(kube_pod_memory_working_set_bytes[%s]))`, `sum by (instance) (rate(http_requests_total[%s]))`,
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: all\n  interval: 1m\n  rules:\n")
	for i := range count {
		window := []string{"5m", "10m", "30m", "1h"}[i/len(shapes)%4]
		fmt.Fprintf(&rules, "  - {record: 'r:%d', expr: '%s'}\n", i, fmt.Sprintf(shapes[i%len(shapes)], window))
	}
	file := filepath.Join(dir, "rules.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))

	measure := func(name string, args ...string) (wall, cpu float64) {
		before, err := p.Metric("process_cpu_seconds_total")
		require.NoError(t, err)
		began := time.Now()
		cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		wall = time.Since(began).Seconds()
		after, err := p.Metric("process_cpu_seconds_total")
		require.NoError(t, err)
		own := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
		t.Logf("%s: %.1f s, CPU %.1f s itself and %.1f s of the Prometheus", name, wall, own, after-before)
		return wall, own + after - before
	}
	from := "--start=" + start.Format(time.RFC3339)
	wall, cpu := measure("promwarp", promwarpBin, "backfill", "--upstream.url="+p.URL, from, "--end="+end.Add(-time.Second).Format(time.RFC3339), "--output="+filepath.Join(dir, "out"), file)
	short := start.Add(time.Duration(part * float64(end.Sub(start)))).Add(-time.Second)
	theirWall, theirCPU := measure("promtool", promtool, "tsdb", "create-blocks-from", "rules", "--url="+p.URL, from, "--end="+short.Format(time.RFC3339), "--eval-interval=1m", "--output-dir="+filepath.Join(dir, "theirs"), file)
	t.Logf("promwarp is %.1f times as fast by the clock, %.1f times by CPU time", theirWall/part/wall, theirCPU/part/cpu)
}
