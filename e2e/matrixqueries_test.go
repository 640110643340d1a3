package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The queries of the matrix of settings: those written here, and random ones.

// matrixTemplates are queries about what settings change: external labels and series
// with such labels of their own, subqueries without a step, features, start timestamps,
// native histograms. $V is one of matrixVectors, $R one of matrixRanges.
var matrixTemplates = []string{
	// External labels.
	`count($V)`, `sum without(instance) ($V)`, `count by (cluster) ($V)`, `count by (room, replica, datacenter) ($V)`,
	`label_replace($V, "where", "$1", "cluster", "(.*)")`, `$V * on(job, instance) group_left(version) target_info`,
	`count_values("cluster", $V)`, `topk by (room) (2, $V)`, `absent($V)`, `sort_desc($V)`,
	// Subqueries without a step.
	`count_over_time($V[2m:])`, `sum_over_time(rate($R[1m])[3m:])`, `max_over_time(sum by (job) ($V)[5m:] offset 1m)`,
	`quantile_over_time(0.5, $V[4m:])`, `last_over_time($V[1m:] @ end())`,
	// Functions of ranges.
	`rate($R[2m])`, `increase($R[5m])`, `irate($R[1m])`, `resets($R[10m])`, `sum by (job) (rate($R[3m] offset 30s))`, `delta($R[2m])`,
	`avg_over_time($R[90s])`, `deriv($R[5m])`, `changes($R[7m])`, `timestamp($V)`, `quantile_over_time(1.5, $R[3m])`,
	// Features.
	`mad_over_time($R[5m])`, `sort_by_label($V, "instance")`, `limitk(3, $V)`, `limit_ratio(0.5, $V)`, `info($V)`, `ts_of_max_over_time($R[3m])`,
	`double_exponential_smoothing($R[5m], 0.5, 0.5)`, `first_over_time($R[2m])`,
	`rate($R[3m] anchored)`, `increase($R[3m] smoothed)`, `$V smoothed`, `delta($R[2m] anchored)`, `changes($R[5m] anchored)`,
	`$V + fill(0) on(job, instance) $V`, `sum by (job) ($V) / on(job) fill_right(1) sum by (job, room) ($V)`,
	`label_replace(rate($R[2m]), "n", "$1", "__name__", "(.*)")`, `rate({__name__=~"requests_total|room_events_total"}[2m])`,
	`abs({job="api"})`, `-{instance="host-0:80"}`, `start_timestamp($V)`, `max_of(1, 2) * $V`, `step() + $V`, `rate($R[step()])`, `rate($R[2m * 2])`,
	`sum by (__type__, __unit__) (typed)`, `typed * 2`, `rate(typed[2m])`,
	// Histograms.
	`histogram_quantile(0.9, sum by (le) (rate(latency_seconds_bucket[5m])))`, `histogram_quantile(0.5, native_seconds)`, `histogram_count(rate(native_seconds[3m]))`,
	`histogram_quantiles($V, "q", 0.1, 0.9)`, `sum(native_seconds) / count(native_seconds)`, `native_seconds + native_seconds`, `rate(native_seconds[2m])`,
	`histogram_avg(increase(native_seconds[4m]))`, `native_seconds </ 1`, `sum by (job) ({__name__=~"native_seconds|memory_bytes"})`,
	// What is wrong.
	`$V + on() $V`, `sum(`, `topk(scalar($V), $V)`, `label_replace($V, "", "", "", "")`, `{job="api"} * {job="db"}`, `no_such_function($V)`,
}

var matrixVectors = []string{
	`requests_total`, `memory_bytes`, `load`, `room_events_total`, `load{cluster="eu"}`, `load{cluster!="eu"}`, `memory_bytes{cluster="eu"}`,
	`memory_bytes{cluster=""}`, `room_events_total{room="5"}`, `room_events_total{room!="5"}`, `room_events_total{room=~"5|6"}`, `room_events_total{room=""}`,
	`{job="api",cluster=~".+"}`, `requests_total{replica!~"a|b"}`, `{__name__=~"load|memory_bytes",room!="5"}`, `requests_total{replica="a"}`,
}

var matrixRanges = []string{`requests_total`, `memory_bytes`, `room_events_total`, `load{cluster=~"eu|us"}`, `requests_total{code="500",replica=""}`, `room_events_total{room="5"}`}

// fillIn puts vectors and ranges into a template.
func fillIn(r *rand.Rand, template string) string {
	for _, p := range []struct {
		hole  string
		those []string
	}{{"$V", matrixVectors}, {"$R", matrixRanges}} {
		for strings.Contains(template, p.hole) {
			template = strings.Replace(template, p.hole, p.those[r.IntN(len(p.those))], 1)
		}
	}
	return template
}

// matrixQueries returns so many queries made of the templates as they are, in turn, beginning
// with any of them, and as many random ones as asked for.
func matrixQueries(r *rand.Rand, written, random int) (out []string) {
	first := r.IntN(len(matrixTemplates))
	for i := range written {
		out = append(out, fillIn(r, matrixTemplates[(first+i)%len(matrixTemplates)]))
	}
	for range random {
		out = append(out, randomQuery(r, 1+r.IntN(3)))
	}
	return out
}

// randomQuery is a random expression of so many levels.
func randomQuery(r *rand.Rand, depth int) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	if depth == 0 {
		return fillIn(r, pick("$V", "$V", "$V offset 1m", "$V @ end()", "native_seconds"))
	}
	in := func() string { return randomQuery(r, depth-1) }
	switch r.IntN(10) {
	case 0, 1:
		return fmt.Sprintf("%s %s (%s)", pick("sum", "avg", "min", "max", "count", "group", "stddev"), pick("by (job)", "by (job, cluster)", "without (instance, room)", "by (replica, code)"), in())
	case 2:
		return fillIn(r, fmt.Sprintf("%s($R[%s]%s)", pick("rate", "increase", "delta", "resets", "changes", "irate", "last_over_time", "sum_over_time"), pick("1m", "3m", "5m"), pick("", "", " offset 20s", " anchored", " smoothed")))
	case 3:
		return fmt.Sprintf("%s((%s)[%s:%s])", pick("max_over_time", "count_over_time", "avg_over_time", "sum_over_time"), in(), pick("2m", "4m"), pick("", "", "30s", "1m"))
	case 4:
		return fmt.Sprintf("(%s) %s %s (%s)", in(), pick("+", "-", "*", "/", ">", "== bool", "and", "or", "unless"), pick("", "on(job, instance)", "ignoring(code, room)"), in())
	case 5:
		return fmt.Sprintf("(%s) %s %s", in(), pick("+", "*", "%", ">", "<= bool"), pick("2", "0.5", "time()", "scalar(memory_bytes{instance=\"host-0:80\",job=\"api\"})"))
	case 6:
		return fmt.Sprintf("%s(%s)", pick("abs", "ceil", "-", "sgn", "hour", "sort", "absent", "timestamp", "histogram_count"), in())
	case 7:
		return fmt.Sprintf("%s(%s, %s)", pick("topk", "bottomk", "quantile"), pick("1", "2", "0.9"), in())
	case 8:
		return fmt.Sprintf(`label_replace(%s, "%s", "$1-x", "%s", "(.+)")`, in(), pick("cluster", "n", "room"), pick("__name__", "cluster", "job"))
	}
	return fmt.Sprintf("(%s) %s fill%s(%s) %s", in(), pick("+", "-", ">"), pick("", "_left", "_right"), pick("0", "1"), "("+in()+")")
}
