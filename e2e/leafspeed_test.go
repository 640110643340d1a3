//go:build clients

package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// TestLeafSpeed measures queries of dashboards over 24 hours through a Querier over three leaves, first and
// repeated, against the same Querier over three sidecars, and requires the same number of series. E2E_SPEED is how
// many series there are to read; without it there is nothing to do. make leafbench runs it.
func TestLeafSpeed(t *testing.T) {
	series, err := envInt("E2E_SPEED", 0)
	require.NoError(t, err)
	if series == 0 {
		t.Skip("E2E_SPEED is not set: make leafbench measures")
	}
	bin, err := buildThanos()
	require.NoError(t, err)
	g := grid{end: time.Now().Add(-time.Hour).Truncate(time.Minute), step: time.Minute}
	g.start = g.end.Add(-24 * time.Hour)
	var promwarps []*process
	var leaves, sidecars []string
	for i, region := range regions {
		dir := t.TempDir()
		o := dataset.Options{Start: g.start.UnixMilli(), End: g.end.UnixMilli(), Series: int(series) / len(regions), Seed: uint64(i + 1)}
		_, err := dataset.WriteBlocks(context.Background(), filepath.Join(dir, "data"), o)
		require.NoError(t, err)
		addr := mustFreeAddr(t)
		config := writeConfig(t, fmt.Sprintf("global: {external_labels: {region: %s}}\n", region))
		up := runServer(t, "Prometheus", addr, prometheusBin, programs.PrometheusArgs(addr, filepath.Join(dir, "data"), config)...)
		p, grpc := leaf(t, up.URL, "--web.enable-admin-api")
		promwarps, leaves, sidecars = append(promwarps, p), append(leaves, grpc), append(sidecars, sidecar(t, bin, up.URL))
	}
	root, second := querier(t, bin, leaves, distributed...), querier(t, bin, sidecars, "--query.promql-engine=thanos", experimental)
	timed := func(url string, form url.Values) (time.Duration, answer) {
		began := time.Now()
		a := ask(t, url, "/api/v1/query_range", form)
		took := time.Since(began)
		require.Equal(t, http.StatusOK, a.code, "%s: %s", form.Get("query"), a.body)
		return took, a
	}
	median := func(url string, form url.Values) time.Duration {
		var all []time.Duration
		for range 3 {
			took, _ := timed(url, form)
			all = append(all, took)
		}
		slices.Sort(all)
		return all[1]
	}
	firsts, repeats := 0.0, 0.0
	for _, q := range dashboard {
		form := whole(g.rangeForm(q))
		form.Set("partial_response", "false")
		_, want := timed(second.URL, form)
		sidecars := median(second.URL, form)
		for _, p := range promwarps {
			resp, err := client.Post(p.URL+"/api/v1/admin/cache/drop?match[]="+url.QueryEscape(`{__name__!=""}`), "", nil)
			require.NoError(t, err)
			resp.Body.Close()
			require.Less(t, resp.StatusCode, 300)
		}
		first, got := timed(root.URL, form)
		// TestLeaf compares values. Thanos's engine, which evaluates over sidecars, has some functions otherwise.
		require.Len(t, parsed(t, got, false).Series, len(parsed(t, want, false).Series), q)
		repeated := median(root.URL, form)
		firsts += math.Log(sidecars.Seconds() / first.Seconds())
		repeats += math.Log(sidecars.Seconds() / repeated.Seconds())
		t.Logf("%8.1f ms through sidecars, %8.1f first, %8.1f repeated: %s", sidecars.Seconds()*1e3, first.Seconds()*1e3, repeated.Seconds()*1e3, q)
	}
	n := float64(len(dashboard))
	t.Logf("geometric means: %.1f times first, %.1f times repeated", math.Exp(firsts/n), math.Exp(repeats/n))
}
