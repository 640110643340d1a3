package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/remoteread"
)

func TestQueryCommand(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := testfiles.DataDirectory(t)
	query := func(change func(*queryOptions)) (string, string, error) {
		o := queryOptions{settings: readFrom(t, dir), executor: "auto", output: "table"}
		change(&o)
		var stdout, stderr bytes.Buffer
		err := runQuery(context.Background(), o, &stdout, &stderr)
		return stdout.String(), stderr.String(), err
	}
	for _, c := range []struct {
		name   string
		change func(*queryOptions)
		want   string
	}{
		{"instant table", func(o *queryOptions) { o.expr, o.at = "m", "600" }, "SERIES    VALUE\nm{i=\"0\"}  10\nm{i=\"1\"}  20\n"},
		{"instant json", func(o *queryOptions) { o.expr, o.at, o.output = "sum(m)", "1970-01-01T00:10:00Z", "json" }, `{"resultType":"vector","result":[{"metric":{},"value":[600,"30"]}]}` + "\n"},
		{"instant csv", func(o *queryOptions) { o.expr, o.at, o.output = "m", "600", "csv" }, "__name__,i,timestamp,value\nm,0,600,10\nm,1,600,20\n"},
		{"range table", func(o *queryOptions) { o.expr, o.start, o.end, o.step = "sum(m)", "600", "1200", "5m" }, "SERIES  POINTS  FIRST  MIN  MAX  LAST\n{}      3       30     30   60   60\n"},
		{"range csv on prometheus", func(o *queryOptions) {
			o.expr, o.start, o.end, o.step, o.output, o.executor = "sum(m)", "600", "1200", "600", "csv", "prometheus"
		}, "timestamp,value\n600,30\n1200,60\n"},
		{"range csv on cpu", func(o *queryOptions) {
			o.expr, o.start, o.end, o.step, o.output, o.executor = "sum(m)", "600", "1200", "600", "csv", "cpu"
		}, "timestamp,value\n600,30\n1200,60\n"},
		{"scalar", func(o *queryOptions) { o.expr = "1+1" }, "2\n"},
		{"string", func(o *queryOptions) { o.expr = `"x"` }, "x\n"},
		{"nothing", func(o *queryOptions) { o.expr = "none" }, "(no series)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, err := query(c.change)
			require.NoError(t, err)
			require.Equal(t, c.want, stdout)
			require.Empty(t, stderr)
		})
	}

	_, stderr, err := query(func(o *queryOptions) { o.expr, o.at = "rate(m[5m]) + on() group_left() vector(1)", "600" })
	require.NoError(t, err)
	require.NotContains(t, stderr, "error")
	_, stderr, err = query(func(o *queryOptions) { o.expr, o.at = "quantile(2, m)", "600" })
	require.NoError(t, err)
	require.Contains(t, stderr, "warning: PromQL warning: quantile value")

	for name, c := range map[string]struct {
		change func(*queryOptions)
		code   int
		want   string
	}{
		"syntax":           {func(o *queryOptions) { o.expr = "sum(" }, exitError, "unclosed left parenthesis"},
		"evaluation":       {func(o *queryOptions) { o.expr, o.at = "m * on() m", "600" }, exitError, "many-to-many"},
		"time":             {func(o *queryOptions) { o.expr, o.at = "m", "noon" }, exitUsage, "--time"},
		"start":            {func(o *queryOptions) { o.expr, o.start = "m", "noon" }, exitUsage, "--start"},
		"end":              {func(o *queryOptions) { o.expr, o.start, o.end = "m", "1", "noon" }, exitUsage, "--end"},
		"step":             {func(o *queryOptions) { o.expr, o.start, o.end, o.step = "m", "1", "2", "0" }, exitUsage, "--step"},
		"end before start": {func(o *queryOptions) { o.expr, o.start, o.end = "m", "2", "1" }, exitUsage, "before"},
		"no start":         {func(o *queryOptions) { o.expr, o.end = "m", "1" }, exitUsage, "--start"},
		"both":             {func(o *queryOptions) { o.expr, o.at, o.start = "m", "1", "1" }, exitUsage, "--time"},
		"no source":        {func(o *queryOptions) { o.expr, o.settings = "m", config.Flags{} }, exitUsage, "--upstream.url"},
		"no data": {func(o *queryOptions) {
			o.expr, o.settings = "m", readFrom(t, t.TempDir())
		}, exitUsage, "not a Prometheus data directory"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := query(c.change)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.code, exitCode(err))
			require.Empty(t, stdout)
		})
	}
}

func TestExecute(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitUsage, execute(context.Background(), []string{"query", "--bogus"}, &stderr))
	require.Contains(t, stderr.String(), "--bogus")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve"}, &stderr))
	require.Contains(t, stderr.String(), "nothing to read from")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve", "--cache.host-bytes=much"}, &stderr))
	require.Contains(t, stderr.String(), "--cache.host-bytes")
}

func TestTables(t *testing.T) {
	print := func(v any) string {
		var b bytes.Buffer
		switch v := v.(type) {
		case promql.Vector:
			require.NoError(t, writeTable(&b, v))
		case promql.Matrix:
			require.NoError(t, writeTable(&b, v))
		}
		return b.String()
	}
	h := &histogram.FloatHistogram{Count: 2, Sum: 3}
	m := labels.FromStrings("a", "b")
	require.Contains(t, print(promql.Vector{{Metric: m, H: h}}), "count:2")
	require.Contains(t, print(promql.Matrix{{Metric: m, Histograms: []promql.HPoint{{T: 1, H: h}}}}), "count:2")
	require.Contains(t, print(promql.Matrix{{Metric: m, Floats: []promql.FPoint{{F: math.NaN()}, {F: 1e20}, {F: -2.5}}}}), "3       NaN    -2.5  1e+20  -2.5")
	require.Error(t, writeCSV(&bytes.Buffer{}, promql.Vector{{H: h}}))
}

func TestProgressLine(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, true)
	p.report(remoteread.Progress{Pieces: 4, PiecesDone: 4, Bytes: 5 << 20, Series: 1000})
	p.report(remoteread.Progress{Pieces: 4, PiecesDone: 4, Bytes: 5, Series: 1})
	p.clear()
	require.Contains(t, b.String(), "\rfetching: 4 of 4 pieces, 5MiB, 1000 series")
	require.True(t, strings.HasSuffix(b.String(), " \r"))
	b.Reset()
	p = newProgress(&b, false)
	p.report(remoteread.Progress{Pieces: 1, PiecesDone: 1})
	p.clear()
	require.Empty(t, b.String())
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"now": now, "-24h": now.AddDate(0, 0, -1), "now-1d": now.AddDate(0, 0, -1), "now+1h30m": now.Add(90 * time.Minute),
		"2026-01-02T03:04:05Z": now, fmt.Sprint(now.Unix()): now, "1.5": time.UnixMilli(1500).UTC(),
	} {
		got, err := parseWhen(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), text)
	}
	for _, text := range []string{"", "noon", "24h", "now24h", "-", "NaN", "1e300"} {
		_, err := parseWhen(text, now)
		require.Error(t, err, text)
	}
	require.Equal(t, 5*time.Minute+45*time.Second, defaultStep(now.Add(-24*time.Hour), now))
	require.Equal(t, time.Second, defaultStep(now, now))
}

// TestQueryWithoutGPU: a query that asks for a GPU fails where there is none.
func TestQueryWithoutGPU(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitError, execute(t.Context(), []string{"query", "--upstream.url=http://127.0.0.1:1", "--gpu.library=libnothing.so.1", "--executor=gpu", "sum(up)"}, &stderr))
	require.Contains(t, stderr.String(), "no NVIDIA driver")
}

// readFrom are the flags of a query over a data directory.
func readFrom(t *testing.T, dir string) config.Flags {
	t.Helper()
	var f config.Flags
	app := kingpin.New("test", "")
	f.AddSource(app)
	_, err := app.Parse([]string{"--tsdb.path=" + dir})
	require.NoError(t, err)
	return f
}
