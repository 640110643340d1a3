//go:build clients

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
	up := runServer(t, "Prometheus", addr, prometheusBin, prometheusArgs(addr, smallData(t, g.end, 6), writeConfig(t, config))...)
	pw := promwarp(t, up.url)
	direct, through := thanos(t, bin, up.url), thanos(t, bin, pw.url)

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
		want := ask(t, up.url, rangePath, form)
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
	grpc, addr := mustFreeAddr(t), mustFreeAddr(t)
	runServer(t, "Thanos sidecar", addr, bin, "sidecar", "--prometheus.url="+url, "--prometheus.get_config_interval=1s",
		"--http-address="+addr, "--grpc-address="+grpc, "--tsdb.path="+t.TempDir())
	addr = mustFreeAddr(t)
	query := runServer(t, "Thanos Query", addr, bin, "query", "--endpoint="+grpc, "--http-address="+addr, "--grpc-address="+mustFreeAddr(t),
		"--query.promql-engine=prometheus")
	require.Eventually(t, func() bool {
		return strings.Contains(fetch(t, query.url+"/api/v1/stores"), fmt.Sprintf(`"name":%q`, grpc))
	}, time.Minute, 100*time.Millisecond, query.log.tail())
	return query.url
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
