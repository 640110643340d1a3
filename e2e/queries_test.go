package e2e

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
