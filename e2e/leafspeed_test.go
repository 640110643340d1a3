//go:build clients

package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

// TestLeafSpeed measures queries of dashboards over 24 hours through a Querier over three leaves, first and
// repeated, against the same Querier over three sidecars, and requires the same number of series. E2E_SPEED is how
// many series there are to read; without it there is nothing to do. make leafbench runs it. It ends with what costs of
// the root bench/scale needs.
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
	median := func(n int, url string, form url.Values) time.Duration {
		var all []time.Duration
		for range n {
			took, _ := timed(url, form)
			all = append(all, took)
		}
		slices.Sort(all)
		return all[n/2]
	}
	formOf := func(query string) url.Values {
		form := whole(g.rangeForm(query))
		form.Set("partial_response", "false")
		return form
	}
	const repeat = 9
	// cores is how long the root and the leaves keep cores busy with a query that is repeated, on average.
	cores := func(form url.Values) (ofRoot, ofLeaves time.Duration) {
		root0, leaves0 := cpuTime(t, root), cpuTime(t, promwarps...)
		for range repeat {
			timed(root.URL, form)
		}
		return (cpuTime(t, root) - root0) / repeat, (cpuTime(t, promwarps...) - leaves0) / repeat
	}
	firsts, repeats := 0.0, 0.0
	var ofRoot, ofLeaves time.Duration
	for _, q := range dashboard {
		form := formOf(q)
		_, want := timed(second.URL, form)
		sidecars := median(3, second.URL, form)
		for _, p := range promwarps {
			resp, err := client.Post(p.URL+"/api/v1/admin/cache/drop?match[]="+url.QueryEscape(`{__name__!=""}`), "", nil)
			require.NoError(t, err)
			resp.Body.Close()
			require.Less(t, resp.StatusCode, 300)
		}
		first, got := timed(root.URL, form)
		// TestLeaf compares values. Thanos's engine, which evaluates over sidecars, has some functions otherwise.
		require.Len(t, parsed(t, got, false).Series, len(parsed(t, want, false).Series), q)
		repeated := median(repeat, root.URL, form)
		r, l := cores(form)
		ofRoot, ofLeaves = ofRoot+r, ofLeaves+l
		firsts += math.Log(sidecars.Seconds() / first.Seconds())
		repeats += math.Log(sidecars.Seconds() / repeated.Seconds())
		t.Logf("%8.1f ms through sidecars, %8.1f first, %8.1f repeated, of cores %6.1f of the root and %6.1f of the leaves: %s",
			inMs(sidecars), inMs(first), inMs(repeated), inMs(r), inMs(l), q)
	}
	n := float64(len(dashboard))
	t.Logf("geometric means: %.1f times first, %.1f times repeated", math.Exp(firsts/n), math.Exp(repeats/n))
	t.Logf("of the cores' time of all repeated queries the root has %.0f %%", 100*ofRoot.Seconds()/(ofRoot+ofLeaves).Seconds())

	// What the root's time is made of: bench/scale has these costs. The root puts the points of all leaves together in
	// both queries, and answers with all of them, or with one at each step.
	const sums = "sum by (instance, region) (process_resident_memory_bytes)"
	_, all := timed(root.URL, formOf(sums))
	points := 0
	for _, s := range parsed(t, all, false).Series {
		points += len(s.Floats)
	}
	alone, _ := cores(formOf("vector(1)"))
	empty, ofThree := cores(formOf("sum(nothing)"))
	answered, encoded := cores(formOf(sums))
	merged, _ := cores(formOf("topk(1, sum by (instance) (process_resident_memory_bytes))"))
	perPoint := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(points) }
	t.Logf("cores' time of the root: %.1f ms a query, %.2f ms a leaf that it asks, %.0f ns a point of a leaf, %.0f ns more a point that is answered; of a leaf: %.2f ms a query, %.0f ns a point",
		inMs(alone), inMs(empty-alone)/3, perPoint(merged-empty), perPoint(answered-merged), inMs(ofThree)/3, perPoint(encoded-ofThree))
	t.Logf("a point of an answer is %.0f bytes", float64(len(all.body))/float64(points))
}

func inMs(d time.Duration) float64 { return d.Seconds() * 1e3 }

// cpuTime is how long programs have kept cores busy.
func cpuTime(t *testing.T, programs ...*process) (sum time.Duration) {
	t.Helper()
	for _, p := range programs {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.Cmd.Process.Pid))
		require.NoError(t, err)
		for _, file := range threads {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // the thread has ended
			}
			ran, _, _ := strings.Cut(string(text), " ")
			ns, err := strconv.ParseInt(ran, 10, 64)
			require.NoError(t, err)
			sum += time.Duration(ns)
		}
	}
	return sum
}
