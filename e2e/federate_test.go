package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

// Where promwarp answers /federate itself, from a data directory or from several
// upstreams, it answers byte for byte what a Prometheus does that has the same data.
func TestFederation(t *testing.T) {
	end := time.Now().Truncate(time.Minute)
	dir := smallData(t, end, 2)
	writeKinds(t, dir, end.Add(-time.Second))
	serve := func(args ...string) *process {
		addr := mustFreeAddr(t)
		return runServer(t, "promwarp", addr, promwarpBin, append([]string{"serve", "--web.listen-address=" + addr}, args...)...)
	}
	copied := func() string { // no two programs may have one directory
		links := t.TempDir()
		require.NoError(t, linkBlocks(dir, links))
		return links
	}
	for name, config := range map[string]string{
		"no external labels": "",
		"external labels":    "global: {external_labels: {region: eu, kind: external}}\n",
		"external instance":  "global: {external_labels: {instance: here}}\n",
	} {
		up := prometheus(t, mustFreeAddr(t), copied(), config)
		twice := fmt.Sprintf("remote_read:\n- {name: one, url: %[1]s/api/v1/read}\n- {name: other, url: %[1]s/api/v1/read}\n", up.url)
		promwarps := map[string]*process{
			"one upstream":      promwarp(t, up.url),
			"several upstreams": serve("--config.file=" + writeConfig(t, twice)),
		}
		if config == "" {
			promwarps["data directory"] = serve("--tsdb.path=" + copied())
		}
		for reads, pw := range promwarps {
			t.Run(name+"/"+reads, func(t *testing.T) { compareFederation(t, up.url, pw.url) })
		}
	}
}

// compareFederation compares what two servers answer to requests to federate.
func compareFederation(t *testing.T, want, got string) {
	for _, query := range []string{
		"match[]=up", "match[]=up&match[]=%7Bjob%3D%22job-1%22%7D", "match[]=%7B__name__%3D~%22.%2B%22%7D",
		"match[]=%7Bkind%21%3D%22%22%7D", "match[]=none", "", "match[]=%7B%7D", "match[]=sum(up)", "match[]=up;x",
	} {
		for _, accept := range []string{
			"", "text/plain", "application/openmetrics-text; version=1.0.0", "text/plain; version=0.0.4; escaping=allow-utf-8",
			"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
			"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=text; q=0.9, text/plain; q=0.5",
		} {
			request := "GET /federate?" + query + "\nAccept-Encoding: gzip"
			if accept != "" {
				request += "\nAccept: " + accept
			}
			exchange{request: request}.check(t, want, got)
		}
	}
}

// writeKinds adds a block with a series of each kind of sample, the newest of which
// are at end.
func writeKinds(t *testing.T, dir string, end time.Time) {
	t.Helper()
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, 2*tsdb.DefaultBlockDuration)
	require.NoError(t, err)
	ms := end.UnixMilli()
	app := w.Appender(t.Context())
	add := func(kind string, h *histogram.Histogram, f *histogram.FloatHistogram) {
		_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "h", "kind", kind), ms, h, f)
		require.NoError(t, err)
	}
	add("counter", tsdbutil.GenerateTestHistogram(1), nil)
	add("custom", tsdbutil.GenerateTestCustomBucketsHistogram(2), nil)
	// One float histogram alone: Prometheus 3.15 has all series of a federation share
	// the memory of their float histograms, and gives the last for all of them.
	add("float", nil, tsdbutil.GenerateTestFloatHistogram(3))
	add("gauge", tsdbutil.GenerateTestGaugeHistogram(4), nil)
	add("stale", &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}, nil)
	for kind, v := range map[string]float64{"float": 1.5, "infinite": math.Inf(-1), "nan": math.NaN(), "stale": math.Float64frombits(value.StaleNaN)} {
		_, err := app.Append(0, labels.FromStrings("Upper", "case", "__name__", "f", "kind", kind), ms, v)
		require.NoError(t, err)
	}
	_, err = app.Append(0, labels.FromStrings("__name__", "f.with dots", "instance", "own", "kind", "name"), ms, 1)
	require.NoError(t, err)
	_, err = app.Append(0, labels.FromStrings("kind", "nameless"), ms, 1)
	require.NoError(t, err)
	_, err = app.Append(0, labels.FromStrings("__name__", "f", "kind", "old"), ms-310_000, 1)
	require.NoError(t, err)
	require.NoError(t, app.Commit())
	_, err = w.Flush(context.Background())
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// Of two Prometheus that share a block promwarp makes the answers that a
// Prometheus makes which reads from both, and without one of them that of the
// other, with a warning.
func TestSeveralUpstreams(t *testing.T) {
	g := smallGrid(6)
	whole := smallData(t, g.end, 6)
	blocks, err := filepath.Glob(filepath.Join(whole, "01*"))
	require.NoError(t, err)
	slices.Sort(blocks)
	require.GreaterOrEqual(t, len(blocks), 3)
	part := func(blocks []string) string {
		dir := t.TempDir()
		for _, b := range blocks {
			require.NoError(t, os.CopyFS(filepath.Join(dir, filepath.Base(b)), os.DirFS(b)))
		}
		return dir
	}
	old := prometheus(t, mustFreeAddr(t), part(blocks[:2]), "")
	recent := prometheus(t, mustFreeAddr(t), part(blocks[1:]), "")
	entries := func(onFailure string) string {
		return fmt.Sprintf("remote_read:\n- {name: old, url: %s/api/v1/read, read_recent: true}\n- {name: recent, url: %s/api/v1/read, read_recent: true%s}\n", old.url, recent.url, onFailure)
	}
	both := prometheus(t, mustFreeAddr(t), t.TempDir(), entries(""))
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, "serve", "--web.listen-address="+addr, "--config.file="+writeConfig(t, entries(", on_failure: warn")))
	all := prometheus(t, mustFreeAddr(t), whole, "")
	chained := prometheus(t, mustFreeAddr(t), t.TempDir(), fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", pw.url))

	queries := []string{dashboard[0], dashboard[3], dashboard[4], dashboard[5], dashboard[8], dashboard[14], dashboard[16], dashboard[17]}
	for _, q := range queries {
		t.Run(q, func(t *testing.T) {
			form := g.rangeForm(q)
			want := ask(t, both.url, rangePath, form)
			require.Equal(t, http.StatusOK, want.code, "%s", want.body)
			require.NotContains(t, string(want.body), `"result":[]`)
			requireSame(t, ask(t, all.url, rangePath, form), want, false, "Prometheus of the parts is Prometheus of the whole")
			requireSame(t, want, ask(t, pw.url, rangePath, form), false, "first")
			requireSame(t, want, ask(t, pw.url, rangePath, form), false, "repeated")
			requireSame(t, want, ask(t, chained.url, rangePath, form), false, "by remote read")
		})
	}
	for _, path := range []string{"/api/v1/labels", "/api/v1/series"} {
		form := url.Values{"match[]": {"up"}}
		require.JSONEq(t, string(ask(t, all.url, path, form).body), string(ask(t, pw.url, path, form).body), path)
	}

	// What is kept of it needs it no more; anything else is partial, and said so.
	recent.kill()
	form := g.rangeForm(queries[0])
	requireSame(t, ask(t, all.url, rangePath, form), ask(t, pw.url, rangePath, form), false, "kept")
	form = g.rangeForm(`sum by (type) (node_memory_bytes{job!=""})`)
	a := ask(t, pw.url, rangePath, form)
	require.Equal(t, http.StatusOK, a.code, "%s", a.body)
	r, err := compare.Parse(a.code, a.body)
	require.NoError(t, err)
	require.Len(t, r.Warnings, 1)
	require.Contains(t, r.Warnings[0], "partial answer, without anything of the upstream recent: cannot reach "+recent.url)
	a = ask(t, old.url, rangePath, form)
	want, err := compare.Parse(a.code, a.body)
	require.NoError(t, err)
	want.Warnings = r.Warnings
	require.NoError(t, sameAnswer(want, r, true))
}
