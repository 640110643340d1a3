package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
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
		twice := fmt.Sprintf("remote_read:\n- {name: one, url: %[1]s/api/v1/read}\n- {name: other, url: %[1]s/api/v1/read}\n", up.URL)
		promwarps := map[string]*process{
			"one upstream":      promwarp(t, up.URL),
			"several upstreams": serve("--config.file=" + writeConfig(t, twice)),
		}
		if config == "" {
			promwarps["data directory"] = serve("--tsdb.path=" + copied())
		}
		for reads, pw := range promwarps {
			t.Run(name+"/"+reads, func(t *testing.T) { compareFederation(t, up.URL, pw.URL) })
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
