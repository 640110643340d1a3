package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

const (
	queryPath = "/api/v1/query"
	rangePath = "/api/v1/query_range"
)

// requireAnswers asks for a range at two URLs, and requires that the second answers twice as the
// first does.
func requireAnswers(t *testing.T, form url.Values, first, second string) {
	t.Helper()
	want := ask(t, first, rangePath, form)
	require.Equal(t, http.StatusOK, want.code, "%s", want.body)
	requireSame(t, want, ask(t, second, rangePath, form), false, "first")
	requireSame(t, want, ask(t, second, rangePath, form), false, "repeated")
}

// Over a day, promwarp answers what Prometheus answers: at first, when it must
// fetch, and again, when it need not.
func TestRangeAnswers(t *testing.T) {
	up := upstream(t)
	pw := promwarp(t, up.URL)
	for _, q := range dashboard {
		t.Run(q, func(t *testing.T) {
			requireAnswers(t, up.grid.rangeForm(q), up.URL, pw.URL)
		})
	}
	t.Run("other grids", func(t *testing.T) {
		const q = `sum by (job) (rate(http_requests_total[5m]))`
		for _, g := range []grid{
			{up.grid.end.Add(-time.Hour), up.grid.end, 15 * time.Second},
			{up.grid.start.Add(333 * time.Millisecond), up.grid.end, 7 * time.Minute},
			{up.grid.start.Add(-2 * time.Hour), up.grid.start.Add(time.Hour), time.Minute},
			{up.grid.end, up.grid.end.Add(10 * time.Minute), 13 * time.Second},
			{up.grid.end, up.grid.end, time.Minute},
		} {
			form := g.rangeForm(q)
			requireSame(t, ask(t, up.URL, rangePath, form), ask(t, pw.URL, rangePath, form), false, form.Encode())
		}
	})
}

// dashboard are queries as dashboards and alerts have them: of every function
// family, with few and with many series in the answer.
var dashboard = []string{
	`sum by (job) (rate(http_requests_total[5m]))`,
	`sum by (job, code) (increase(http_requests_total[1h]))`,
	`sum by (job) (rate(http_requests_total{code=~"5.."}[5m])) / sum by (job) (rate(http_requests_total[5m]))`,
	`rate(http_requests_total{job="job-1",code="200"}[5m])`,
	`topk(5, sum by (instance) (rate(http_requests_total[10m])))`,
	`histogram_quantile(0.99, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))`,
	`sum by (job) (rate(http_request_duration_seconds_sum[5m])) / sum by (job) (rate(http_request_duration_seconds_count[5m]))`,
	`100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])))`,
	`avg by (job, type) (node_memory_bytes)`,
	`quantile by (job) (0.9, avg_over_time(node_memory_bytes[5m]))`,
	`sum(avg_over_time(node_memory_bytes{type="used"}[1d]))`,
	`max_over_time(process_resident_memory_bytes[30m])`,
	`stddev by (job) (process_resident_memory_bytes) > 1e6`,
	`min by (job) (min_over_time(up[10m]))`,
	`count(up == 0) or vector(0)`,
	`sum by (namespace) (kube_pod_memory_working_set_bytes)`,
	`sum by (job) (resets(http_requests_total{code="200"}[1h])) + sum by (job) (changes(up[1h]))`,
	`max_over_time(sum by (job) (rate(http_requests_total{code="500"}[2m]))[10m:1m])`,
	`deriv(node_memory_bytes{type="free"}[15m]) * 3600`,
	`sum(rate(process_resident_memory_bytes[5m])) - sum(rate(process_resident_memory_bytes[5m] offset 1h))`,
}

// instant are queries at one time. Those that sort must answer in order.
var instant = []struct {
	query   string
	ordered bool
}{
	{`1 + 1`, true},
	{`"text"`, true},
	{`sum by (job) (rate(http_requests_total[5m]))`, false},
	{`sort_desc(sum by (job) (increase(http_requests_total[1d])))`, true},
	{`sort(count by (job) (app_build_info) * 1000 + sum by (job) (up))`, true},
	{`topk by (job) (2, process_resident_memory_bytes)`, false},
	{`up[3m]`, true},
	{`quantile(1.5, up)`, false},
	{`absent(http_requests_total{job="none"})`, false},
	{`count_values("version", app_build_info)`, false},
	{`label_replace(up{job="job-7"}, "host", "$1", "instance", "(.*):.*")`, false},
	{`http_requests_total{job="job-7"} @ end() - http_requests_total{job="job-7"} offset 6h`, false},
	{`group by (pod) (kube_pod_memory_working_set_bytes) unless group by (pod) (kube_pod_memory_working_set_bytes offset 12h)`, false},
	{`histogram_quantile(0.5, http_request_duration_seconds_bucket)`, false},
	{`no_such_metric`, false},
}

// TestResample compares resample requests with Prometheus's range queries: with buckets closed and
// labelled on the right both are of the same windows.
func TestResample(t *testing.T) {
	end := time.Now().Add(-time.Hour).Truncate(time.Hour)
	up := prometheus(t, mustFreeAddr(t), smallData(t, end, 6), "")
	pw := promwarp(t, up.URL)
	const every = 5 * time.Minute
	start := end.Add(-4 * time.Hour)
	for aggregate, query := range map[string]string{
		"sum": "sum_over_time(http_requests_total[5m])", "max": "max_over_time(http_requests_total[5m])", "count": "count_over_time(http_requests_total[5m])",
		"mean": "avg_over_time(http_requests_total[5m])", "95pct": "quantile_over_time(0.95, http_requests_total[5m])",
	} {
		form := grid{start, end, every}.rangeForm("")
		form.Del("query")
		form.Del("step")
		form.Set("metric", "http_requests_total")
		form.Set("every", "5m")
		form.Set("aggregates", aggregate)
		form.Set("closed", "right")
		form.Set("label", "right")
		got := valuesOf(t, ask(t, pw.URL, "/query", form))
		want := valuesOf(t, ask(t, up.URL, "/api/v1/query_range", grid{start.Add(every), end, every}.rangeForm(query)))
		require.NotEmpty(t, want)
		require.Equal(t, want, got, aggregate)
	}
}

// valuesOf are the values of a matrix by the labels of their series, without those that only one
// of the two kinds of answers has.
func valuesOf(t *testing.T, a answer) map[string][]point {
	r, err := a.parse()
	require.NoError(t, err)
	require.Equal(t, "success", r.Status, r.Error)
	var all []series
	require.NoError(t, json.Unmarshal(r.Data.Result, &all))
	out := map[string][]point{}
	for _, s := range all {
		delete(s.Metric, "__name__")
		delete(s.Metric, "aggregate")
		out[s.String()] = s.Values
	}
	return out
}

// clientCall is a call of the client library.
type clientCall func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error)

func warned[T any](v T, w promapi.Warnings, err error) (any, promapi.Warnings, error) {
	return v, w, err
}

// plain calls a method that has no warnings.
func plain[T any](method func(promapi.API, context.Context) (T, error)) clientCall {
	return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
		v, err := method(c, ctx)
		return v, nil, err
	}
}

// of is plain for a method with an argument.
func of[A, T any](method func(promapi.API, context.Context, A) (T, error), arg A) clientCall {
	return plain(func(c promapi.API, ctx context.Context) (T, error) { return method(c, ctx, arg) })
}

// Every call of Prometheus's own client library gives with promwarp what it gives with
// the Prometheus behind it: the same values, the same warnings, the same errors.
func TestClientLibrary(t *testing.T) {
	b := busy(t)
	connect := func(url string) promapi.API {
		c, err := api.NewClient(api.Config{Address: url})
		require.NoError(t, err)
		return promapi.NewAPI(c)
	}
	theirs, ours := connect(b.URL), connect(b.promwarp.URL)
	start, end := b.grid.start, b.grid.end
	r := promapi.Range{Start: start, End: end, Step: 90 * time.Second}
	query := func(q string, opts ...promapi.Option) clientCall {
		return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return warned(c.Query(ctx, q, end, opts...))
		}
	}
	queryRange := func(q string, opts ...promapi.Option) clientCall {
		return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return warned(c.QueryRange(ctx, q, r, opts...))
		}
	}
	series := func(matches []string, opts ...promapi.Option) clientCall {
		return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return warned(c.Series(ctx, matches, start, end, opts...))
		}
	}
	names := func(matches []string, opts ...promapi.Option) clientCall {
		return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return warned(c.LabelNames(ctx, matches, start, end, opts...))
		}
	}
	values := func(label string, matches []string, start, end time.Time, opts ...promapi.Option) clientCall {
		return func(ctx context.Context, c promapi.API) (any, promapi.Warnings, error) {
			return warned(c.LabelValues(ctx, label, matches, start, end, opts...))
		}
	}
	const closed = "promwarp has no admin API to switch on"
	for name, c := range map[string]struct {
		call clientCall
		// fails says that it is an error, and why promwarp's has words of its own.
		fails, words string
		// own says why the answer is promwarp's own.
		own string
		// warns says that there is a warning.
		warns bool
	}{
		"query":                           {call: query(`sum by (job) (rate(http_requests_total[5m]))`)},
		"query of a scalar":               {call: query(`1 + 1`)},
		"query of a matrix":               {call: query(`up[5m]`)},
		"query with a timeout":            {call: query(`sum(up)`, promapi.WithTimeout(time.Minute))},
		"query with a lookback":           {call: query(`up`, promapi.WithLookbackDelta(time.Millisecond))},
		"query with a longer lookback":    {call: query(`up offset -20m`, promapi.WithLookbackDelta(time.Hour))},
		"query with statistics":           {call: query(`sum(up)`, promapi.WithStats(promapi.AllStatsValue))},
		"query with a limit":              {call: query(`up`, promapi.WithLimit(3)), warns: true},
		"query with all options":          {call: query(`up`, promapi.WithLimit(1), promapi.WithTimeout(time.Minute), promapi.WithLookbackDelta(time.Minute), promapi.WithStats(promapi.AllStatsValue)), warns: true},
		"query that notes something":      {call: query(`rate(node_memory_bytes[5m])`)},
		"query that warns":                {call: query(`quantile(2, up)`), warns: true},
		"query that does not parse":       {call: query(`sum(`), fails: "bad_data"},
		"query that matches several":      {call: query(`up * on (job) up`), fails: "execution"},
		"range":                           {call: queryRange(`sum by (job) (rate(http_requests_total[5m]))`)},
		"range with all options":          {call: queryRange(`up`, promapi.WithLimit(1), promapi.WithTimeout(time.Minute), promapi.WithLookbackDelta(time.Minute), promapi.WithStats(promapi.AllStatsValue)), warns: true},
		"range that is of the wrong type": {call: queryRange(`up[5m]`), fails: "bad_data"},
		"series":                          {call: series([]string{"up", `{__name__=~"http_.*_total"}`})},
		"series with a limit":             {call: series([]string{"up"}, promapi.WithLimit(2)), warns: true},
		"series of nothing":               {call: series(nil), fails: "bad_data"},
		"label names":                     {call: names(nil)},
		"label names of some":             {call: names([]string{"up"}, promapi.WithLimit(1)), warns: true},
		"label values":                    {call: values("job", nil, time.Time{}, time.Time{})},
		"label values of some":            {call: values("__name__", []string{`{job="shop"}`}, start, time.Now(), promapi.WithLimit(100))},
		"exemplars": {call: plain(func(c promapi.API, ctx context.Context) ([]promapi.ExemplarQueryResult, error) {
			return c.QueryExemplars(ctx, "shop_orders_total", time.Unix(1_600_000_000, 0), end)
		})},
		"targets": {call: plain(promapi.API.Targets)},
		"targets metadata": {call: plain(func(c promapi.API, ctx context.Context) ([]promapi.MetricMetadata, error) {
			return c.TargetsMetadata(ctx, `{job="shop"}`, "shop_wait_seconds", "1")
		})},
		"metadata": {call: plain(func(c promapi.API, ctx context.Context) (map[string][]promapi.Metadata, error) {
			return c.Metadata(ctx, "shop_wait_seconds", "1")
		})},
		"rules":         {call: of(promapi.API.Rules, nil)},
		"some rules":    {call: of(promapi.API.Rules, []string{`{severity="page"}`})},
		"alerts":        {call: plain(promapi.API.Alerts)},
		"alertmanagers": {call: plain(promapi.API.AlertManagers)},
		"TSDB": {call: plain(func(c promapi.API, ctx context.Context) (promapi.TSDBResult, error) {
			return c.TSDB(ctx, promapi.WithLimit(3))
		})},
		"TSDB blocks":     {call: plain(promapi.API.TSDBBlocks)},
		"WAL replay":      {call: plain(promapi.API.WalReplay)},
		"format query":    {call: of(promapi.API.FormatQuery, "sum(up)by(job)")},
		"format nonsense": {call: of(promapi.API.FormatQuery, "sum("), fails: "bad_data"},
		"config":          {call: plain(promapi.API.Config), own: "it is promwarp's configuration"},
		"flags":           {call: plain(promapi.API.Flags), own: "they are promwarp's flags"},
		"build":           {call: plain(promapi.API.Buildinfo), own: "it is promwarp's build"},
		"runtime":         {call: plain(promapi.API.Runtimeinfo), own: "it is about promwarp's process"},
		"snapshot":        {call: of(promapi.API.Snapshot, true), fails: "server_error", words: closed},
		"delete series": {call: plain(func(c promapi.API, ctx context.Context) (any, error) {
			return nil, c.DeleteSeries(ctx, []string{"up"}, start, end)
		}), fails: "server_error", words: closed},
		"clean tombstones": {call: plain(func(c promapi.API, ctx context.Context) (any, error) { return nil, c.CleanTombstones(ctx) }), fails: "server_error", words: closed},
	} {
		t.Run(name, func(t *testing.T) {
			want, wantWarnings, wantErr := c.call(t.Context(), theirs)
			got, gotWarnings, gotErr := c.call(t.Context(), ours)
			require.ElementsMatch(t, wantWarnings, gotWarnings)
			require.Equal(t, c.warns, len(gotWarnings) > 0, "%q", gotWarnings)
			if c.fails != "" {
				var w, g *promapi.Error
				require.ErrorAs(t, wantErr, &w)
				require.ErrorAs(t, gotErr, &g)
				require.Equal(t, w.Type, g.Type)
				require.ErrorContains(t, gotErr, c.fails)
				if c.words == "" {
					require.Equal(t, w, g)
				}
				return
			}
			require.NoError(t, wantErr)
			require.NoError(t, gotErr)
			if c.own != "" {
				require.NotEqual(t, settled(t, want), settled(t, got), c.own)
				return
			}
			require.Equal(t, settled(t, want), settled(t, got))
		})
	}
}

// promtool's queries give with promwarp what they give with the Prometheus behind it.
func TestPromtool(t *testing.T) {
	bin, err := programs.FromPrometheus("promtool")
	require.NoError(t, err)
	b := busy(t)
	start, end := seconds(b.grid.start), seconds(b.grid.end)
	for name, c := range map[string]struct {
		args      []string // {server} is the server's URL
		fails     bool
		unordered bool   // promtool prints the lines in any order
		own       string // what promwarp says in words of its own
	}{
		"instant":           {args: []string{"query", "instant", "--time=" + end, "{server}", `sort_desc(sum by (job) (rate(http_requests_total[5m])))`}},
		"instant in JSON":   {args: []string{"query", "instant", "--format=json", "--time=" + end, "{server}", `topk(3, process_resident_memory_bytes)`}},
		"instant, wrong":    {args: []string{"query", "instant", "--time=" + end, "{server}", `sum(`}, fails: true},
		"range":             {args: []string{"query", "range", "--start=" + start, "--end=" + end, "--step=1m", "{server}", `sum by (job) (rate(http_requests_total[5m]))`}},
		"range in JSON":     {args: []string{"query", "range", "--format=json", "--start=" + start, "--end=" + end, "{server}", `histogram_quantile(0.9, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))`}},
		"range with limits": {args: []string{"query", "range", "--start=" + start, "--end=" + end, "--step=1s", "{server}", `up`}, fails: true},
		"series":            {args: []string{"query", "series", "--match=up", `--match=node_memory_bytes{type="free"}`, "--start=" + start, "--end=" + end, "{server}"}},
		"labels":            {args: []string{"query", "labels", "--start=" + start, "--end=" + end, "{server}", "job"}},
		"labels of some":    {args: []string{"query", "labels", "--match=shop_orders_total", "{server}", "kind"}},
		"analyze":           {args: []string{"query", "analyze", "--server={server}", "--type=histogram", "--duration=2h", "--time=" + end, "--match=http_request_duration_seconds_bucket"}, unordered: true},
		"healthy":           {args: []string{"check", "healthy", "--url={server}"}, own: "SUCCESS:  promwarp is healthy."},
		"ready":             {args: []string{"check", "ready", "--url={server}"}, own: "SUCCESS:  promwarp is ready."},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(server string) (string, error) {
				args := slices.Clone(c.args)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "{server}", server)
				}
				out, err := exec.Command(bin, args...).CombinedOutput()
				return strings.ReplaceAll(string(out), server, "{server}"), err
			}
			want, wantErr := run(b.URL)
			got, gotErr := run(b.promwarp.URL)
			if c.unordered {
				want, got = sortedLines(want), sortedLines(got)
			}
			if c.own != "" {
				require.Contains(t, got, c.own)
			} else {
				require.Equal(t, want, got)
			}
			require.NotEmpty(t, got)
			require.Equal(t, c.fails, wantErr != nil, want)
			require.Equal(t, c.fails, gotErr != nil, got)
		})
	}
}

func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}
