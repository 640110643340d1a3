package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
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
	up := runServer(t, "Prometheus", addr, prometheusBin, programs.PrometheusArgs(addr, smallData(t, now.Add(time.Hour), 6), writeConfig(t, ""))...)
	addr = mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, promwarpArgs(addr, up.URL)...)

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
	reader := prometheus(t, mustFreeAddr(t), t.TempDir(), fmt.Sprintf("global: {rule_query_offset: %s}\nrule_files: ['%s']\nremote_read: [{url: '%s/api/v1/read', read_recent: true}]\n", model.Duration(offset), file, pw.URL))

	iterations := func() int { return int(totals(t, reader.URL)["prometheus_rule_group_iterations_total"]) }
	after := func(n int) map[string]float64 {
		require.Eventually(t, func() bool { return iterations() >= n }, 2*time.Minute, 200*time.Millisecond)
		return totals(t, pw.URL)
	}
	first, last := after(3), after(20)
	fetches, evaluations := int(last["promwarp_cache_fetches_total"]), iterations()+1
	t.Logf("%d fetches in at most %d evaluations of %d rules", fetches, evaluations, len(exprs))
	// Longer windows fetch more once.
	require.LessOrEqual(t, fetches, len(selectors)*evaluations+len(exprs))
	require.Greater(t, int(last["promwarp_read_requests_total"]), 19*len(exprs))
	const settled = "promwarp_cache_tile_misses_total"
	require.LessOrEqual(t, last[settled]-first[settled], float64(len(selectors)), "a tile may have become settled meanwhile")
	require.Zero(t, totals(t, reader.URL)["prometheus_rule_evaluation_failures_total"])

	checked := 0
	for name, expr := range exprs {
		a, err := ask(t, reader.URL, queryPath, instantForm(fmt.Sprintf("{__name__=%q}[10s]", name), time.Now().Add(-offset))).parse()
		require.NoError(t, err)
		var recorded []series
		require.NoError(t, json.Unmarshal(a.Data.Result, &recorded))
		for _, s := range recorded {
			p := s.Values[0]
			form := instantForm(fmt.Sprintf(`(%s) and on (job) label_replace(vector(1), "job", %q, "", "")`, expr, s.Metric["job"]), now)
			form.Set("time", p.t)
			want, err := ask(t, up.URL, queryPath, form).parse()
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

// A Prometheus that reads from promwarp answers what promwarp's upstream
// answers.
func TestPrometheusReadsFromPromwarp(t *testing.T) {
	up := upstream(t)
	pw := promwarp(t, up.URL)
	config := fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", pw.URL)
	reader := prometheus(t, mustFreeAddr(t), t.TempDir(), config)
	for _, q := range []string{dashboard[0], dashboard[3], dashboard[5], dashboard[8], dashboard[14], dashboard[15]} {
		t.Run(q, func(t *testing.T) {
			requireAnswers(t, up.grid.rangeForm(q), up.URL, reader.URL)
		})
	}
	for _, q := range instant {
		form := instantForm(q.query, up.grid.end)
		requireSame(t, ask(t, up.URL, queryPath, form), ask(t, reader.URL, queryPath, form), q.ordered, q.query)
	}
}

// What the settings of a reader do is as docs/readers.md says.
func TestReaderSettings(t *testing.T) {
	g := smallGrid(3)
	addr := mustFreeAddr(t)
	up := runServer(t, "Prometheus", addr, prometheusBin, programs.PrometheusArgs(addr, smallData(t, g.end, 3), writeConfig(t, "global: {external_labels: {cluster: eu}}\n"))...)
	pw := promwarp(t, up.URL)
	for name, c := range map[string]struct {
		global, read, query string
		found               bool
	}{
		"no external labels":                     {"", "", "count(up)", true},
		"their labels, which come":               {"", "", `count(up{cluster="eu"})`, true},
		"the same external labels":               {"external_labels: {cluster: eu}", "", "count(up)", true},
		"others":                                 {"external_labels: {cluster: us}", "", "count(up)", false},
		"others that are not sent":               {"external_labels: {cluster: us}", "filter_external_labels: false", "count(up)", true},
		"a required matcher that is not there":   {"", "required_matchers: {cluster: eu}", "count(up)", false},
		"a required matcher on an external one":  {"", "required_matchers: {cluster: eu}", `count(up{cluster="eu"})`, true},
		"a required matcher that no series has":  {"", "required_matchers: {tier: long}", `count(up{tier="long"})`, false},
		"another label than that which is added": {"", "", `count(up{cluster="us"})`, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := fmt.Sprintf("global: {%s}\nremote_read: [{url: '%s/api/v1/read', read_recent: true, %s}]\n", c.global, pw.URL, c.read)
			reader := prometheus(t, mustFreeAddr(t), t.TempDir(), config)
			a, err := ask(t, reader.URL, queryPath, instantForm(c.query, g.end.Add(-time.Minute))).parse()
			require.NoError(t, err)
			require.Equal(t, "success", a.Status)
			if !c.found {
				require.Equal(t, "[]", string(a.Data.Result))
				return
			}
			want, err := ask(t, up.URL, queryPath, instantForm("count(up)", g.end.Add(-time.Minute))).parse()
			require.NoError(t, err)
			require.Equal(t, string(want.Data.Result), string(a.Data.Result))
		})
	}
}

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
	pw := promwarp(t, up.URL)
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
				config := fmt.Sprintf("remote_read:\n- url: %s/api/v1/read%s\n  read_recent: true\n", pw.URL, path)
				return runServer(t, "reader"+path, addr, bin, programs.PrometheusArgs(addr, t.TempDir(), writeConfig(t, config))...)
			}
			all, readers := reader(""), map[string]*process{"thin": reader("/thin"), "aggregate": reader("/aggregate")}
			before := reducedReads(t, pw.URL)
			coarse := up.grid
			coarse.step *= 10
			coarse.start, coarse.end = coarse.start.Truncate(coarse.step), coarse.end.Truncate(coarse.step)
			for _, q := range reducible {
				for at, form := range map[string]url.Values{queryPath: instantForm(q, coarse.end), rangePath: coarse.rangeForm(q)} {
					want := ask(t, all.URL, at, form)
					require.Equal(t, http.StatusOK, want.code, "%s", want.body)
					for path, r := range readers {
						requireSame(t, want, ask(t, r.URL, at, form), false, path+": "+q)
					}
				}
			}
			after := reducedReads(t, pw.URL)
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

// With an older Prometheus as upstream the answers are still those of the
// Prometheus that promwarp is built with.
func TestOlderUpstream(t *testing.T) {
	bin, err := olderPrometheus()
	if err != nil {
		t.Skipf("no other Prometheus: %v; install one as prometheus on PATH or name one in E2E_UPSTREAM", err)
	}
	up := upstream(t)
	// Links, so that neither server changes the other's directory.
	dir := t.TempDir()
	require.NoError(t, linkBlocks(up.dataDir(), dir))
	addr := mustFreeAddr(t)
	old := runServer(t, "older Prometheus", addr, bin, programs.PrometheusArgs(addr, dir, writeConfig(t, ""))...)
	out, err := exec.Command(bin, "--version").CombinedOutput()
	require.NoError(t, err)
	t.Logf("%s", out)

	pw := promwarp(t, old.URL)
	for _, q := range []string{dashboard[0], dashboard[2], dashboard[3], dashboard[5], dashboard[8], dashboard[13], dashboard[15], dashboard[18]} {
		t.Run(q, func(t *testing.T) {
			requireAnswers(t, up.grid.rangeForm(q), up.URL, pw.URL)
		})
	}
	for _, q := range instant {
		form := instantForm(q.query, up.grid.end)
		requireSame(t, ask(t, up.URL, queryPath, form), ask(t, pw.URL, queryPath, form), q.ordered, q.query)
	}
}

// olderPrometheus finds another Prometheus, or unpacks Debian's package without
// installing it.
func olderPrometheus() (string, error) {
	if bin := os.Getenv("E2E_UPSTREAM"); bin != "" {
		return bin, nil
	}
	if bin, err := exec.LookPath("prometheus"); err == nil {
		return bin, nil
	}
	dir, err := filepath.Abs(filepath.Join(programs.BuildDir, "debian"))
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "unpacked", "usr", "bin", "prometheus")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", errors.New("apt-get is not there to fetch Debian's")
	}
	if os.Geteuid() != 0 {
		return "", errors.New("only root fetches Debian's")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	const script = `set -e
cd "$1"
rm -rf unpacked part prometheus_*.deb
apt-get download prometheus || { apt-get update; apt-get download prometheus; }
dpkg -x prometheus_*.deb part
mv part unpacked
rm prometheus_*.deb`
	if out, err := exec.Command("sh", "-c", script, "sh", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Debian's package: %w\n%s", err, out)
	}
	return bin, nil
}

// linkBlocks makes in to the same blocks as in from, sharing their files.
func linkBlocks(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (rel == "wal" || rel == "chunks_head"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case filepath.Dir(rel) == ".": // the lock and the list of queries
			return nil
		}
		return os.Link(path, filepath.Join(to, rel))
	})
}

// An older Prometheus that reads from promwarp answers what it answers when it reads
// from promwarp's upstream itself.
func TestOlderReader(t *testing.T) {
	bin, err := olderPrometheus()
	if err != nil {
		t.Skipf("no other Prometheus: %v; install one as prometheus on PATH or name one in E2E_UPSTREAM", err)
	}
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	pw := promwarp(t, up.URL)
	reading := func(from string) *process {
		addr := mustFreeAddr(t)
		config := writeConfig(t, fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", from))
		return runServer(t, "older Prometheus", addr, bin, programs.PrometheusArgs(addr, t.TempDir(), config)...)
	}
	direct, through := reading(up.URL), reading(pw.URL)
	for _, q := range dashboard {
		t.Run(q, func(t *testing.T) {
			form := g.rangeForm(q)
			want := ask(t, direct.URL, rangePath, form)
			require.Equal(t, http.StatusOK, want.code, "%s", want.body)
			requireSame(t, want, ask(t, through.URL, rangePath, form), false, "first")
			requireSame(t, want, ask(t, through.URL, rangePath, form), false, "repeated")
		})
	}
	for _, q := range instant {
		form := instantForm(q.query, g.end)
		requireSame(t, ask(t, direct.URL, queryPath, form), ask(t, through.URL, queryPath, form), q.ordered, q.query)
	}
}
