package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	pw := promwarp(t, up.url)
	for _, q := range dashboard {
		t.Run(q, func(t *testing.T) {
			requireAnswers(t, up.grid.rangeForm(q), up.url, pw.url)
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
			requireSame(t, ask(t, up.url, rangePath, form), ask(t, pw.url, rangePath, form), false, form.Encode())
		}
	})
}

func TestInstantAnswers(t *testing.T) {
	up := upstream(t)
	pw := promwarp(t, up.url)
	for _, q := range instant {
		t.Run(q.query, func(t *testing.T) {
			for _, at := range []time.Time{up.grid.end, up.grid.start.Add(7*time.Hour + 123*time.Millisecond)} {
				form := instantForm(q.query, at)
				want := ask(t, up.url, queryPath, form)
				require.Equal(t, http.StatusOK, want.code, "%s", want.body)
				requireSame(t, want, ask(t, pw.url, queryPath, form), q.ordered, "first")
				requireSame(t, want, ask(t, pw.url, queryPath, form), q.ordered, "repeated")
			}
		})
	}
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
	pw := promwarp(t, up.url)
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
		got := valuesOf(t, ask(t, pw.url, "/query", form))
		want := valuesOf(t, ask(t, up.url, "/api/v1/query_range", grid{start.Add(every), end, every}.rangeForm(query)))
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
