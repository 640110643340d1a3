// Package queries holds the queries of the comparison.
package queries

import (
	"net/url"
	"strconv"
	"time"
)

// Query is a range query of a dashboard.
type Query struct {
	Name  string
	Expr  string
	Range time.Duration // up to the end of the data
	Step  time.Duration
}

// Form asks for the query on a data set that ends at end and is length long,
// both in whole milliseconds. A longer range is cut to that length.
func (q Query) Form(end time.Time, length time.Duration) url.Values {
	start := end.Add(-min(q.Range, length))
	return url.Values{
		"query": {q.Expr},
		"start": {seconds(start)},
		"end":   {seconds(end)},
		"step":  {strconv.FormatFloat(q.Step.Seconds(), 'f', -1, 64)},
	}
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}

// All are the queries of the comparison, by the kind of dashboard. The data
// set's metrics are described in package dataset. Windows of a day go with
// short ranges, so that a data set of 30 hours fills every window.
var All = []Query{
	// Requests, errors, durations.
	day("red-rate", `sum by (job) (rate(http_requests_total[5m]))`),
	day("red-errors-5m", `sum by (job) (rate(http_requests_total{code=~"5.."}[5m])) / sum by (job) (rate(http_requests_total[5m]))`),
	day("red-p99", `histogram_quantile(0.99, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))`),
	day("red-mean-latency", `sum by (job) (rate(http_request_duration_seconds_sum[5m])) / sum by (job) (rate(http_request_duration_seconds_count[5m]))`),
	day("red-increase-1h", `sum by (job, code) (increase(http_requests_total[1h]))`),
	day("red-apdex", `(sum by (job) (rate(http_request_duration_seconds_bucket{le="0.1"}[5m])) + sum by (job) (rate(http_request_duration_seconds_bucket{le="0.25"}[5m]))) / 2 / sum by (job) (rate(http_request_duration_seconds_count[5m]))`),
	fine("red-one-job", `sum by (handler, code) (rate(http_requests_total{job="job-1"}[1m]))`),
	fine("red-p50-by-instance", `histogram_quantile(0.5, sum by (le, instance) (rate(http_request_duration_seconds_bucket{job="job-0"}[5m])))`),
	fine("red-irate-errors", `sum by (job) (irate(http_requests_total{code=~"5.."}[5m]))`),

	// Utilisation, saturation, errors.
	day("use-cpu", `100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])))`),
	day("use-cpu-by-mode", `sum by (job, mode) (rate(node_cpu_seconds_total[5m]))`),
	day("use-memory", `avg by (job, type) (node_memory_bytes)`),
	day("use-memory-p90", `quantile by (job) (0.9, avg_over_time(node_memory_bytes[5m]))`),
	day("use-memory-trend", `deriv(node_memory_bytes{type="free"}[15m]) * 3600`),
	fine("use-iowait", `max by (job) (rate(node_cpu_seconds_total{mode="iowait"}[2m]))`),
	fine("use-predict", `predict_linear(node_memory_bytes{type="available"}[1h], 4 * 3600) < 2e9`),
	day("use-down", `count(up == 0) or vector(0)`),

	// Service-level objectives.
	day("slo-burn-1h", `sum by (job) (rate(http_requests_total{code=~"5.."}[1h])) / sum by (job) (rate(http_requests_total[1h])) / 0.001`),
	day("slo-burn-6h", `sum by (job) (rate(http_requests_total{code=~"5.."}[6h])) / sum by (job) (rate(http_requests_total[6h])) / 0.001`),
	fine("slo-alert", `sum by (job) (rate(http_requests_total{code=~"5.."}[1h])) / sum by (job) (rate(http_requests_total[1h])) > 14.4 * 0.001 and sum by (job) (rate(http_requests_total{code=~"5.."}[5m])) / sum by (job) (rate(http_requests_total[5m])) > 14.4 * 0.001`),
	day("slo-latency-1h", `1 - sum by (job) (rate(http_request_duration_seconds_bucket{le="0.25"}[1h])) / sum by (job) (rate(http_request_duration_seconds_count[1h]))`),
	coarse("slo-budget-1d", `1 - sum by (job) (increase(http_requests_total{code=~"5.."}[1d])) / sum by (job) (increase(http_requests_total[1d])) / 0.001`),
	recent("slo-up-1d", `avg by (job) (avg_over_time(up[1d]))`),

	// Kubernetes: pods that come and go.
	day("k8s-memory", `sum by (namespace) (kube_pod_memory_working_set_bytes)`),
	day("k8s-pods", `count by (namespace) (kube_pod_memory_working_set_bytes)`),
	day("k8s-node-max-1h", `sum by (node) (max_over_time(kube_pod_memory_working_set_bytes[1h]))`),
	day("k8s-churn", `count(group by (pod) (kube_pod_memory_working_set_bytes) unless group by (pod) (kube_pod_memory_working_set_bytes offset 1h))`),

	// The largest few.
	day("topk-instances", `topk(5, sum by (instance) (rate(http_requests_total[10m])))`),
	day("topk-pods", `topk(10, kube_pod_memory_working_set_bytes)`),

	// Many series in the answer.
	day("wide-rate", `rate(http_requests_total{job="job-1", code="200"}[5m])`),
	day("wide-gauge", `process_resident_memory_bytes`),
	day("wide-max-30m", `max_over_time(process_resident_memory_bytes[30m])`),
	fine("wide-cpu", `rate(node_cpu_seconds_total[5m])`),

	// Long windows.
	recent("long-avg-1d", `sum by (type) (avg_over_time(node_memory_bytes[1d]))`),
	recent("long-resets-1d", `sum by (job) (resets(http_request_duration_seconds_count[1d]))`),
	recent("long-quantile-6h", `quantile_over_time(0.95, process_resident_memory_bytes[6h])`),
	day("long-stddev-6h", `avg by (job) (stddev_over_time(process_resident_memory_bytes[6h]))`),
	day("long-changes-1h", `sum by (job) (changes(up[1h]))`),

	// Subqueries.
	recent("subquery-peak", `max_over_time(sum by (job) (rate(http_requests_total[5m]))[1h:1m])`),
	day("subquery-up", `min_over_time((sum by (job) (up) / count by (job) (up))[30m:1m])`),
	day("subquery-p90-6h", `quantile_over_time(0.9, sum by (job) (rate(http_requests_total{code="500"}[5m]))[6h:5m])`),

	// Joins.
	day("join-version", `sum by (version) (rate(http_requests_total[5m]) * on (instance) group_left (version) app_build_info)`),
	day("join-share", `sum by (mode) (rate(node_cpu_seconds_total[5m])) / ignoring (mode) group_left sum(rate(node_cpu_seconds_total[5m]))`),
	day("join-hour-ago", `sum by (job) (rate(http_requests_total[5m])) / sum by (job) (rate(http_requests_total[5m] offset 1h))`),
}

// day is a query over a day, every minute.
func day(name, expr string) Query { return Query{name, expr, 24 * time.Hour, time.Minute} }

// fine is a query over six hours, every 15 seconds.
func fine(name, expr string) Query { return Query{name, expr, 6 * time.Hour, 15 * time.Second} }

// recent is a query over six hours, every minute.
func recent(name, expr string) Query { return Query{name, expr, 6 * time.Hour, time.Minute} }

// coarse is a query over six hours, every ten minutes.
func coarse(name, expr string) Query { return Query{name, expr, 6 * time.Hour, 10 * time.Minute} }
