//go:build clients

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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

// thanosVersion is the version of Thanos's Go module that is tested with.
const thanosVersion = "v0.42.4"

// buildThanos returns the path of Thanos. It is built if need be, in its module's own
// folder, as its go.mod replaces some of its dependencies.
func buildThanos() (string, error) {
	const module = "github.com/thanos-io/thanos@" + thanosVersion
	return programs.Keep("thanos-"+thanosVersion, func(path string) error {
		cmd := exec.Command("go", "mod", "download", "-json", module)
		cmd.Dir = os.TempDir()
		out, err := cmd.Output()
		var downloaded struct{ Dir, Error string }
		if err := errors.Join(err, json.Unmarshal(out, &downloaded)); err != nil {
			return fmt.Errorf("go mod download %s: %w %s", module, err, downloaded.Error)
		}
		return programs.Build(downloaded.Dir, "-mod=readonly", "-trimpath", "-tags", "slicelabels", "-o", path, "./cmd/thanos")
	})
}

// buildVictoriaMetrics returns the path of one of VictoriaMetrics's programs, built if need
// be, of the version that the module in dir pins: the benchmark's measures it.
func buildVictoriaMetrics(app, dir string) (string, error) {
	const module = "github.com/VictoriaMetrics/VictoriaMetrics"
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module)
	cmd.Dir = dir
	version, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("which version of %s to build: %w", app, err)
	}
	return programs.Keep(app+"-"+strings.TrimSpace(string(version)), func(path string) error {
		return programs.Build(dir, "-trimpath", "-o", path, module+"/app/"+app)
	})
}

// victoriaMetricsModule pins VictoriaMetrics and vmalert.
const victoriaMetricsModule = "../bench/victoriametrics"

// Thanos Query over a sidecar at promwarp answers what it answers over a sidecar at the
// Prometheus behind promwarp, and what that Prometheus itself answers.
//
// The sidecar takes external labels from /api/v1/status/config and ends where there
// are none, so promwarp must show those of its upstream. It hands on the chunks of
// remote read as they are and knows XOR chunks alone, so promwarp must not send it
// other encodings than the upstream has.
func TestThanos(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	g := smallGrid(6)
	addr := mustFreeAddr(t)
	config := "global: {external_labels: {region: eu, replica: a}}\n"
	up := runServer(t, "Prometheus", addr, prometheusBin, programs.PrometheusArgs(addr, smallData(t, g.end, 6), writeConfig(t, config))...)
	pw := promwarp(t, up.URL)
	direct, through := thanos(t, bin, up.URL), thanos(t, bin, pw.URL)

	for _, q := range dashboard {
		t.Run(q, func(t *testing.T) {
			form := whole(g.rangeForm(q))
			want := ask(t, direct, rangePath, form)
			require.Equal(t, http.StatusOK, want.code, "%s", want.body)
			requireSame(t, want, ask(t, through, rangePath, form), false, "first")
			requireSame(t, want, ask(t, through, rangePath, form), false, "repeated")
		})
	}
	for _, q := range instant {
		form := whole(instantForm(q.query, g.end))
		requireSame(t, ask(t, direct, queryPath, form), ask(t, through, queryPath, form), q.ordered, q.query)
	}
	// What is aggregated has no external labels, so it is Prometheus's own, but for the
	// functions that Thanos's engine, of another version, has otherwise.
	for _, q := range []string{`sum by (job) (http_requests_total)`, `avg by (job, type) (node_memory_bytes)`, `count(up)`, `max by (job) (max_over_time(process_resident_memory_bytes[30m]))`} {
		form := whole(g.rangeForm(q))
		want := ask(t, up.URL, rangePath, form)
		require.NotContains(t, string(want.body), `"result":[]`)
		requireSame(t, want, ask(t, through, rangePath, form), false, q)
	}
	for _, path := range []string{"/api/v1/labels", "/api/v1/label/job/values", "/api/v1/series?match[]=up", "/api/v1/metadata", "/api/v1/rules", "/api/v1/targets"} {
		u, err := url.Parse(path)
		require.NoError(t, err)
		q := u.Query()
		q.Set("start", seconds(g.start))
		q.Set("end", seconds(g.end))
		want, got := fetch(t, direct+u.Path+"?"+q.Encode()), fetch(t, through+u.Path+"?"+q.Encode())
		require.JSONEq(t, want, got, path)
		require.Contains(t, want, "success", path)
	}
}

// whole asks Thanos for all samples, of which it leaves some out otherwise as coming
// from replicas.
func whole(form url.Values) url.Values {
	form.Set("dedup", "false")
	return form
}

// thanos starts a sidecar at the server at url and a Thanos Query over it, whose URL it
// returns once it knows the sidecar.
func thanos(t *testing.T, bin, url string) string {
	t.Helper()
	return querier(t, bin, []string{sidecar(t, bin, url)}, "--query.promql-engine=prometheus").URL
}

// sidecar starts a Thanos sidecar at the server at url, and returns its address for gRPC.
func sidecar(t *testing.T, bin, url string) string {
	t.Helper()
	grpc, addr := mustFreeAddr(t), mustFreeAddr(t)
	runServer(t, "Thanos sidecar", addr, bin, "sidecar", "--prometheus.url="+url, "--prometheus.get_config_interval=1s",
		"--http-address="+addr, "--grpc-address="+grpc, "--tsdb.path="+t.TempDir())
	return grpc
}

// querier starts a Thanos Query over endpoints, and waits until it knows all of them.
func querier(t *testing.T, bin string, endpoints []string, flags ...string) *process {
	t.Helper()
	addr := mustFreeAddr(t)
	args := append([]string{"query", "--http-address=" + addr}, flags...)
	if !slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "--grpc-address=") }) {
		args = append(args, "--grpc-address="+mustFreeAddr(t))
	}
	for _, endpoint := range endpoints {
		args = append(args, "--endpoint="+endpoint)
	}
	query := runServer(t, "Thanos Query", addr, bin, args...)
	require.Eventually(t, func() bool {
		known := fetch(t, query.URL+"/api/v1/stores")
		return !slices.ContainsFunc(endpoints, func(endpoint string) bool { return !strings.Contains(known, fmt.Sprintf(`"name":%q`, endpoint)) })
	}, time.Minute, 100*time.Millisecond, query.Log.Tail())
	return query
}

// fetch returns what is at url.
func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// vmctl copies through promwarp each sample that it copies from the Prometheus behind
// it, once, in both of remote read's forms.
func TestVmctl(t *testing.T) {
	server, err := buildVictoriaMetrics("victoria-metrics", victoriaMetricsModule)
	require.NoError(t, err)
	vmctl, err := buildVictoriaMetrics("vmctl", "vmctl")
	require.NoError(t, err)
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	pw := promwarp(t, up.URL)
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
			want, got := copied(t, up.URL, args...), copied(t, pw.URL, args...)
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
		"-retentionPeriod=100y", "-loggerLevel=WARN").URL
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
