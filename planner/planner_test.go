package planner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// prepare parses and preprocesses a query as Prometheus's engine does.
func prepare(t *testing.T, qs string, start, end, step int64) *parser.EvalStmt {
	expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(qs)
	require.NoError(t, err)
	s := &parser.EvalStmt{
		Start: time.UnixMilli(start), End: time.UnixMilli(end), Interval: time.Duration(step) * time.Millisecond,
		LookbackDelta: 5 * time.Minute,
	}
	s.Expr, err = promql.PreprocessExpr(expr, s.Start, s.End, s.Interval)
	require.NoError(t, err)
	return s
}

func env() Env { return Env{NoStepSubqueryInterval: func(int64) int64 { return 60_000 }} }

// planned plans a statement that is planned in time.
func planned(t testing.TB, stmt *parser.EvalStmt, e Env) ([]*Part, *plan.Decision) {
	parts, root, err := Plan(t.Context(), stmt, e)
	require.NoError(t, err)
	return parts, root
}

// TestPlan is a table of queries and the parts planned: what is computed, on
// which grid, and what reads which times.
func TestPlan(t *testing.T) {
	const start, end, step = 3_600_000, 7_200_000, 60_000
	for _, c := range []struct {
		query string
		parts []string // "node | start+interval*steps | reads from..to [| outer n] [| subquery]"
	}{
		{`x`, []string{`x | 3600+60*61 | reads 3300.001..7200`}},
		{`sum(x)`, []string{`sum(x) | 3600+60*61 | reads 3300.001..7200`}},
		{`sum by (b, a) (rate(x[5m]))`, []string{`sum by (b, a) (rate(x[5m])) | 3600+60*61 | reads 3300.001..7200`}},
		{`max(sum without (a) (increase(x[1h] offset 10m)))`, []string{`max(sum without (a) (increase(x[1h] offset 10m))) | 3600+60*61 | reads -600+0.001..6600`}},
		{`(((x)))`, []string{`x | 3600+60*61 | reads 3300.001..7200`}},
		// Only the executor's own: the rest is Prometheus's.
		{`stddev(x)`, []string{`stddev(x) | 3600+60*61 | reads 3300.001..7200`}},
		{`quantile by (a) (0.5, x)`, []string{`quantile by (a) (0.5, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`quantile(2, x)`, []string{`quantile(2, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`topk(2, x)`, []string{`topk(2, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`bottomk by (a) (-(1), sum by (a, b) (rate(x[5m]))) * 2`, []string{`bottomk by (a) (-(1), sum by (a, b) (rate(x[5m]))) * 2 | 3600+60*61 | reads 3300.001..7200`}},
		{`topk(NaN, x)`, []string{`topk(NaN, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`topk(-Inf, x)`, []string{`topk(-Inf, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`limitk(9223372036854774784, x)`, []string{`limitk(9223372036854775000, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`limitk(9223372036854773760, x)`, []string{`limitk(9223372036854774000, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`limit_ratio(-1, x)`, []string{`limit_ratio(-1, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`limit_ratio(1.5, x)`, []string{`limit_ratio(1.5, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`limit_ratio(NaN, x)`, []string{`limit_ratio(NaN, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`max(count_values by (a) ("b", x))`, []string{`max(count_values by (a) ("b", x)) | 3600+60*61 | reads 3300.001..7200`}},
		{`count_values("", x)`, nil},
		{`count_values("v", max_over_time(x[5m]))`, []string{`count_values("v", max_over_time(x[5m])) | 3600+60*61 | reads 3300.001..7200`}},
		{`count_values("v", abs(stddev_over_time(x[5m])))`, nil},
		{`count_values("v", abs(stddev_over_time(x[5m])) + max_over_time(x[5m]))`, []string{`max_over_time(x[5m]) | 3600+60*61 | reads 3300.001..7200`}},
		{`sum(a) / sum(b)`, []string{`sum(a) / sum(b) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`topk(scalar(max(k)), rate(x[1m]))`, []string{`topk(scalar(max(k)), rate(x[1m])) | 3600+60*61 | reads 3300.001..7200 | reads 3540.001..7200`}},
		{`double_exponential_smoothing(x[5m], 0.5, 0.5)`, []string{`double_exponential_smoothing(x[5m], 0.5, 0.5) | 3600+60*61 | reads 3300.001..7200`}},
		{`double_exponential_smoothing(x[5m], 0.5, 1)`, []string{`double_exponential_smoothing(x[5m], 0.5, 1) | 3600+60*61 | reads 3300.001..7200`}},
		{`double_exponential_smoothing(x[5m], NaN, 0.5)`, []string{`double_exponential_smoothing(x[5m], NaN, 0.5) | 3600+60*61 | reads 3300.001..7200`}},
		{`double_exponential_smoothing(x[5m], 0.5, time())`, []string{`double_exponential_smoothing(x[5m], 0.5, time()) | 3600+60*61 | reads 3300.001..7200`}},
		// Classic histograms.
		{`histogram_quantile(0.9, x)`, []string{`histogram_quantile(0.9, x) | 3600+60*61 | reads 3300.001..7200`}},
		{`max(histogram_quantile(2, sum by (le) (rate(x[5m]))) * 2)`, []string{`max(histogram_quantile(2, sum by (le) (rate(x[5m]))) * 2) | 3600+60*61 | reads 3300.001..7200`}},
		{`histogram_fraction(0, 1 / 2, rate(x[5m]))`, []string{`histogram_fraction(0, 1 / 2, rate(x[5m])) | 3600+60*61 | reads 3300.001..7200`}},
		{`histogram_quantile(time(), x)`, []string{`histogram_quantile(time(), x) | 3600+60*61 | reads 3300.001..7200`}},
		{`histogram_quantile(0.9, topk(1, x))`, []string{`histogram_quantile(0.9, topk(1, x)) | 3600+60*61 | reads 3300.001..7200`}},
		{`histogram_quantile(0.9, sum(histogram_quantile(0.9, x)))`, []string{`sum(histogram_quantile(0.9, x)) | 3600+60*61 | reads 3300.001..7200`}},
		{`histogram_count(x)`, []string{`x | 3600+60*61 | reads 3300.001..7200`}},
		{`quantile_over_time(0.9, x[5m])`, []string{`quantile_over_time(0.9, x[5m]) | 3600+60*61 | reads 3300.001..7200`}},
		{`predict_linear(x[5m], -(60))`, []string{`predict_linear(x[5m], -(60)) | 3600+60*61 | reads 3300.001..7200`}},
		{`predict_linear(x[5m], 4 * 3600) < 2 ^ 2`, []string{`predict_linear(x[5m], 4 * 3600) < 2 ^ 2 | 3600+60*61 | reads 3300.001..7200`}},
		{`x > 14.4 * (0.002 - 0.001) / 2`, []string{`x > 14.4 * (0.002 - 0.001) / 2 | 3600+60*61 | reads 3300.001..7200`}},
		{`predict_linear(x[5m], time())`, []string{`predict_linear(x[5m], time()) | 3600+60*61 | reads 3300.001..7200`}},
		{`quantile_over_time(2, x[5m])`, []string{`quantile_over_time(2, x[5m]) | 3600+60*61 | reads 3300.001..7200`}},
		{`avg_over_time(x[5m:1m])`, []string{`avg_over_time(x[5m:1m]) | 3600+60*61 | x on 3360+60*65 | reads 3060.001..7200`}},
		{`absent_over_time(x[5m:1m])`, []string{`absent_over_time(x[5m:1m]) {} | 3600+60*61 | x on 3360+60*65 | reads 3060.001..7200`}},
		{`1 + 2`, nil},
		{`sum(abs(x) * -2 > bool 1)`, []string{`sum(abs(x) * -2 > bool 1) | 3600+60*61 | reads 3300.001..7200`}},
		{`2 - rate(x[1m])`, []string{`2 - rate(x[1m]) | 3600+60*61 | reads 3540.001..7200`}},
		{`-x`, []string{`-x | 3600+60*61 | reads 3300.001..7200`}},
		{`+sum(x)`, []string{`sum(x) | 3600+60*61 | reads 3300.001..7200`}},
		{`clamp(x, 0, 1)`, []string{`clamp(x, 0, 1) | 3600+60*61 | reads 3300.001..7200`}},
		{`clamp(x, 1, 0)`, []string{`clamp(x, 1, 0) | 3600+60*61 | reads 3300.001..7200`}},
		{`x ^ (7 % 4 atan2 pi()) + (1 > bool 2)`, []string{`x ^ (7 % 4 atan2 pi()) + (1 > bool 2) | 3600+60*61 | reads 3300.001..7200`}},
		// Scalars, too, are parts if they read samples.
		{`time()`, nil},
		{`vector(time())`, nil},
		{`vector(1)`, nil},
		{`scalar(sum(y))`, []string{`scalar(sum(y)) | 3600+60*61 | reads 3300.001..7200`}},
		{`-scalar(y) + time() * max_of(2, 3)`, []string{`-scalar(y) + time() * max_of(2, 3) | 3600+60*61 | reads 3300.001..7200 | once`}},
		{`hour() > 8 and x`, []string{`hour() > 8 and x | 3600+60*61 | reads 3300.001..7200`}},
		{`day_of_week(x)`, []string{`day_of_week(x) | 3600+60*61 | reads 3300.001..7200`}},
		{`hour()`, nil},
		{`x * time()`, []string{`x * time() | 3600+60*61 | reads 3300.001..7200`}},
		{`abs(time() - x)`, []string{`abs(time() - x) | 3600+60*61 | reads 3300.001..7200`}},
		{`x * scalar(sum(y))`, []string{`x * scalar(sum(y)) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`clamp(x, -(time() / 2), 4)`, []string{`clamp(x, -(time() / 2), 4) | 3600+60*61 | reads 3300.001..7200`}},
		{`x * scalar(sort(y))`, []string{`x * scalar(sort(y)) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`x * scalar(topk(time(), y))`, []string{`x * scalar(topk(time(), y)) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`sum(x) or vector(0)`, []string{`sum(x) or vector(0) | 3600+60*61 | reads 3300.001..7200 | once`}},
		{`vector(scalar(x) + 1)`, []string{`vector(scalar(x) + 1) | 3600+60*61 | reads 3300.001..7200`}},
		{`max_over_time((x > time())[5m:1m])`, []string{`max_over_time((x > time())[5m:1m]) | 3600+60*61 | x > time() on 3360+60*65 | reads 3060.001..7200`}},
		// Operators between vectors, at any depth.
		{`a + on (b) group_left (c) d`, []string{`a + on (b) group_left (c) d | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`sum by (x) (a * on (i) group_left (v) b)`, []string{`sum by (x) (a * on (i) group_left (v) b) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`a > bool ignoring (x) b`, []string{`a > bool ignoring (x) b | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`-(a and b) * 2`, []string{`-(a and b) * 2 | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`a unless on () (b != 0)`, []string{`a unless on () (b != 0) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`max(sum by (j) (rate(a[5m])) / sum by (j) (rate(b[5m])))`, []string{`max(sum by (j) (rate(a[5m])) / sum by (j) (rate(b[5m]))) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`absent(a - b)`, []string{`absent(a - b) {} | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`a - b * c`, []string{`a - b * c | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`max_over_time((a / b)[5m:1m])`, []string{`max_over_time((a / b)[5m:1m]) | 3600+60*61 | a / b on 3360+60*65 | reads 3060.001..7200 | reads 3060.001..7200`}},
		{`a / topk(1, b)`, []string{`a / topk(1, b) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`a + fill(0) b`, []string{`a + fill (0) b | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		// Functions of labels, and of the order of series.
		{`label_replace(x, "a", "$1", "b", "(.*)")`, []string{`label_replace(x, "a", "$1", "b", "(.*)") | 3600+60*61 | reads 3300.001..7200`}},
		{`sum by (a) (label_join(rate(x[5m]), "a", "-", "b", "c") * 2)`, []string{`sum by (a) (label_join(rate(x[5m]), "a", "-", "b", "c") * 2) | 3600+60*61 | reads 3300.001..7200`}},
		{`label_join(x, "a", "-")`, []string{`label_join(x, "a", "-") | 3600+60*61 | reads 3300.001..7200`}},
		{`label_replace(x, "a", "$1", "b", "(.*")`, nil},
		{`label_replace(x, "", "$1", "b", "(.*)")`, nil},
		{`y + label_replace(x, "", "$1", "b", "(.*)")`, []string{`y + label_replace(x, "", "$1", "b", "(.*)") | 3600+60*61 | reads 3300.001..7200`}},
		{`label_join(x, "a", "$1", "")`, nil},
		{`label_join(x, "", "$1", "b")`, nil},
		{`sort(x)`, []string{`sort(x) (ranged) | 3600+60*61 | reads 3300.001..7200`}},
		{`sort_desc(sum by (a) (rate(x[5m])))`, []string{`sort_desc(sum by (a) (rate(x[5m]))) (ranged) | 3600+60*61 | reads 3300.001..7200`}},
		{`sort_by_label(x @ 100, "a", "b")`, []string{`sort_by_label(x @ 100.000, "a", "b") | 3600+60*61 | once | reads -199.999..100`}},
		{`sort(max_over_time(x[5m:1m] @ 100))`, []string{`sort(max_over_time(x[5m:1m] @ 100.000)) | 3600+60*61 | once | x on -180+60*5 | reads -479.999..60`}},
		// Parents that read a selector themselves keep it.
		{`start_timestamp(x)`, nil},
		// A bare selector's equality matchers become labels.
		{`absent(x)`, []string{`absent(x) {} | 3600+60*61 | reads 3300.001..7200`}},
		{`absent(x{a="1",b=~"2"})`, []string{`absent(x{a="1",b=~"2"}) {a="1"} | 3600+60*61 | reads 3300.001..7200`}},
		{`absent((x{a="1"}))`, []string{`absent(x{a="1"}) {a="1"} | 3600+60*61 | reads 3300.001..7200`}},
		{`absent(x{a="1",a!="2"})`, []string{`absent(x{a!="2",a="1"}) {} | 3600+60*61 | reads 3300.001..7200`}},
		{`absent(x{a=~"1",a="2",b="3",b="3",c!="",c="4"})`, []string{
			`absent(x{a="2",a=~"1",b="3",b="3",c!="",c="4"}) {a="2", c="4"} | 3600+60*61 | reads 3300.001..7200`,
		}},
		{`absent(x{a!="2",a="1"})`, nil}, // it depends on whether the storage reorders them
		{`absent_over_time(x{a="1"}[5m] offset 1m)`, []string{`absent_over_time(x{a="1"}[5m] offset 1m) {a="1"} | 3600+60*61 | reads 3240.001..7140`}},
		{`absent(sum(x{a="1"}))`, []string{`absent(sum(x{a="1"})) {} | 3600+60*61 | reads 3300.001..7200`}},
		{`timestamp(x)`, []string{`timestamp(x) | 3600+60*61 | reads 3300.001..7200`}},
		{`timestamp(x @ 100)`, []string{`timestamp(x @ 100.000) | 3600+60*61 | once | reads -199.999..100`}},
		{`timestamp(x @ 100 offset 5m)`, nil},
		{`timestamp(rate(x[5m]))`, []string{`timestamp(rate(x[5m])) | 3600+60*61 | reads 3300.001..7200`}},
		// Anchored and smoothed selectors read more than their windows.
		{`rate(x[5m] anchored)`, []string{`rate(x[5m] anchored) | 3600+60*61 | reads 3000.001..7200`}},
		{`rate(x[5m] smoothed offset 1m)`, []string{`rate(x[5m] smoothed offset 1m) | 3600+60*61 | reads 2940.001..7440`}},
		{`sum(delta(x[5m] smoothed @ 100))`, []string{`sum(delta(x[5m] smoothed @ 100.000)) | 3600+60*61 | once | reads -499.999..400`}},
		{`max_over_time(resets(x[5m] anchored)[10m:1m])`, []string{`max_over_time(resets(x[5m] anchored)[10m:1m]) | 3600+60*61 | resets(x[5m] anchored) on 3060+60*70 | reads 2460.001..7200`}},
		{`x smoothed`, []string{`x smoothed | 3600+60*61 | reads 3300.001..7500`}},
		{`sum(x anchored)`, []string{`sum(x anchored) | 3600+60*61 | reads 3300.001..7200`}},
		{`timestamp(x smoothed)`, []string{`timestamp(x smoothed) | 3600+60*61 | reads 3300.001..7200`}},
		{`resets(x[5m] smoothed)`, nil},
		{`sum(irate(x[5m] anchored))`, nil},
		{`absent_over_time(x[5m] anchored)`, nil},
		{`rate(x[300.0005])`, nil},
		// Info series are read when the selectors of the first argument are.
		{`info(rate(x[5m]))`, []string{`info(rate(x[5m])) at 0s | 3600+60*61 | reads 3300.001..7200`}},
		{`sum by (v) (info(rate(x[5m] offset 1m), {v="1"}))`, []string{`sum by (v) (info(rate(x[5m] offset 1m), {v="1"})) at 1m0s | 3600+60*61 | reads 3240.001..7140`}},
		{`info(x offset 1m + y offset 60s)`, []string{`info(x offset 1m + y offset 1m) at 1m0s | 3600+60*61 | reads 3240.001..7140 | reads 3240.001..7140`}},
		{`info(x offset 1m + y)`, []string{`info(x offset 1m + y) at 0s | 3600+60*61 | reads 3240.001..7140 | reads 3300.001..7200`}},
		{`info(x offset 1m or vector(1))`, []string{`info(x offset 1m or vector(1)) at 0s | 3600+60*61 | reads 3240.001..7140 | once`}},
		{`info(x @ 100 offset 1m)`, []string{`info(x @ 100.000 offset 1m) at 100 1m0s | 3600+60*61 | once | reads -259.999..40`}},
		{`info(max_over_time(x[5m:1m] offset 1m))`, []string{`info(max_over_time(x[5m:1m] offset 1m)) at 1m0s | 3600+60*61 | x on 3300+60*65 | reads 3000.001..7140`}},
		{`info(info(x offset 1m), {__name__="y_info"})`, []string{`info(info(x offset 1m), {__name__="y_info"}) at 1m0s at 1m0s | 3600+60*61 | reads 3240.001..7140`}},
		{`info(rate(x[5m]) or absent(y{a="1",a!="2"}))`, []string{`info(rate(x[5m]) or absent(y{a!="2",a="1"})) at 0s | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`}},
		{`info(rate(x[5m] offset 1m) or absent(y{a="1",a!="2"} offset 1m))`, []string{`info(rate(x[5m] offset 1m) or absent(y{a!="2",a="1"} offset 1m)) at 1m0s | 3600+60*61 | reads 3240.001..7140 | reads 3240.001..7140`}},
		{`last_over_time(info(x)[5m:1m])`, nil}, // info may set a type
		// @ is step-invariant: one step, repeated.
		{`x @ 100`, []string{`x @ 100.000 | 3600+60*61 | once | reads -199.999..100`}},
		{`sum(rate(x[1m] @ end() offset 30s)) + y`, []string{
			`sum(rate(x[1m] @ 7200.000 offset 30s)) + y | 3600+60*61 | once | reads 7110.001..7170 | reads 3300.001..7200`,
		}},
		{`sum(info(y @ 100) + x @ 100)`, []string{`sum(info(y @ 100.000) + x @ 100.000) at 100 | 3600+60*61 | once | reads -199.999..100 | reads -199.999..100`}},
		// Subqueries have a grid of their own, aligned to their step.
		{`sum(max_over_time(rate(x[5m])[10m:50s]))`, []string{`sum(max_over_time(rate(x[5m])[10m:50s])) | 3600+60*61 | rate(x[5m]) on 3050+50*84 | reads 2750.001..7200`}},
		{`max_over_time(x[10m:])`, []string{`max_over_time(x[10m:]) | 3600+60*61 | x on 3060+60*70 | reads 2760.001..7200`}},
		{`max_over_time(x[10m:1m] offset 30s)`, []string{`max_over_time(x[10m:1m] offset 30s) | 3600+60*61 | x on 3000+60*70 | reads 2700.001..7140`}},
		{`max_over_time(x[10m:1m] @ 5000)`, []string{`max_over_time(x[10m:1m] @ 5000.000) | 3600+60*61 | once | x on 4440+60*10 | reads 4140.001..4980`}},
		{`max_over_time(max_over_time(x[2m:30s])[4m:1m])`, []string{`max_over_time(max_over_time(x[2m:30s])[4m:1m]) | 3600+60*61 | max_over_time(x[2m:30s]) on 3420+60*64 | x on 3330+30*130 | reads 3030.001..7200`}},
		{`max_over_time((x @ 100)[10m:1m])`, []string{`max_over_time((x @ 100.000)[10m:1m]) | 3600+60*61 | (x @ 100.000) on 3060+60*70 | once | reads -199.999..100`}},
		{`max_over_time((x @ 100)[10m:1m] offset 5m)`, []string{`max_over_time((x @ 100.000)[10m:1m] offset 5m) | 3600+60*61 | (x @ 100.000) on 2760+60*70 | once | reads -199.999..100`}},
		{`max_over_time((x @ 100)[10m:1m] @ 200)`, []string{
			`max_over_time((x @ 100.000)[10m:1m] @ 200.000) | 3600+60*61 | once | (x @ 100.000) on -360+60*10 | once | reads -199.999..100`,
		}},
		{`max_over_time(max_over_time(x[2m:30s] @ 50)[4m:1m])`, []string{
			`max_over_time(max_over_time(x[2m:30s] @ 50.000)[4m:1m]) | 3600+60*61 | max_over_time(x[2m:30s] @ 50.000) on 3420+60*64 | once | x on -60+30*4 | reads -359.999..30`,
		}},
		// There Prometheus's engine shifts @, as the subquery starts where the query does.
		{`max_over_time((x @ 100)[5m:1m] offset -4m)`, nil},
		{`max_over_time(max_over_time(x[2m:30s] @ 50)[5m:1m] offset -4m)`, nil},
		{`max_over_time(x[30s:1m] @ 50)`, nil}, // has no steps
	} {
		t.Run(c.query, func(t *testing.T) {
			stmt := prepare(t, c.query, start, end, step)
			before := stmt.Expr.String()
			parts, root := planned(t, stmt, env())
			require.Equal(t, before, stmt.Expr.String(), "planning must not change the query")
			var got []string
			for _, p := range parts {
				got = append(got, render(p))
				require.Same(t, p.Expr, *p.Slot)
			}
			require.Equal(t, normal(c.parts), got)
			root.Walk(func(d *plan.Decision) {
				if d.Executor == plan.OnPrometheus {
					require.NotEmpty(t, d.Reason, d.Expr)
				}
			})
		})
	}
}

// normal resolves the one sum in the table, which reads better unresolved.
func normal(parts []string) []string {
	for i, p := range parts {
		parts[i] = strings.Replace(p, "-600+0.001", "-599.999", 1)
	}
	return parts
}

func render(p *Part) string {
	sec := func(ms int64) string { return strings.TrimSuffix(fmt.Sprintf("%g", float64(ms)/1000), ".0") }
	grid := func(g plan.Grid) string { return fmt.Sprintf("%s+%s*%d", sec(g.Start), sec(g.Interval), g.Steps) }
	s := p.Node.String()
	s += infosOf(p.Node)
	if a, ok := p.Node.(*plan.Absent); ok {
		s += " " + a.Labels.String()
	}
	if sort, ok := p.Node.(*plan.Sort); ok && sort.Ranged {
		s += " (ranged)"
	}
	s += " | " + grid(p.Grid)
	var below func(n plan.Node, g plan.Grid)
	below = func(n plan.Node, g plan.Grid) {
		switch x := n.(type) {
		case *plan.Subwindow:
			g = x.Inner
			s += fmt.Sprintf(" | %s on %s", x.Input, grid(g))
		case *plan.Once:
			g = x.Grid(g)
			s += " | once"
		case *plan.Window:
			mint, maxt := x.Reads(g)
			s += fmt.Sprintf(" | reads %s..%s", sec(mint), sec(maxt))
		}
		for _, in := range n.Inputs() {
			below(in, g)
		}
	}
	below(p.Node, p.Grid)
	if p.Outer > 0 {
		s += fmt.Sprintf(" | outer %d", p.Outer)
	}
	if p.InSubquery {
		s += " | subquery"
	}
	return s
}

// TestExcluded: an excluded selector takes the nodes above it with it and no
// other, and the explanation gives the reason.
func TestExcluded(t *testing.T) {
	stmt := prepare(t, `sum(rate(a[5m])) + sum(rate(b[5m]))`, 0, 600_000, 60_000)
	e := env()
	e.Excluded = map[posrange.PositionRange]string{{Start: 9, End: 10}: "it is odd"}
	parts, root := planned(t, stmt, e)
	require.Len(t, parts, 1)
	require.Equal(t, "sum(rate(b[5m]))", parts[0].Node.String())
	require.Equal(t, "its input stays with Prometheus's engine: it is odd", root.Children[0].Reason)
}

// TestExcludedOperator: an operator that an executor has declined stays with
// Prometheus's engine, and so does what is above it, but not its sides.
func TestExcludedOperator(t *testing.T) {
	const qs = `sum(rate(foo[5m]) * b) + scalar(c)`
	at := func(s string) posrange.PositionRange {
		i := strings.Index(qs, s)
		return posrange.PositionRange{Start: posrange.Pos(i), End: posrange.Pos(i + len(s))}
	}
	for excluded, want := range map[string][]string{
		"":                       {qs},
		qs:                       {"sum(rate(foo[5m]) * b)", "scalar(c)"},
		"sum(rate(foo[5m]) * b)": {"rate(foo[5m]) * b", "scalar(c)"},
		"rate(foo[5m]) * b":      {"rate(foo[5m])", "b", "scalar(c)"},
		"foo":                    {"b", "scalar(c)"},
		"scalar(c)":              {"sum(rate(foo[5m]) * b)", "c"},
	} {
		e := env()
		e.Excluded = map[posrange.PositionRange]string{at(excluded): "it is odd"}
		parts, root := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
		var got []string
		for _, p := range parts {
			got = append(got, p.Node.String())
		}
		require.Equal(t, want, got, excluded)
		var reasons []string
		root.Walk(func(d *plan.Decision) { reasons = append(reasons, d.Reason) })
		require.Equal(t, excluded != "", strings.Contains(strings.Join(reasons, ""), "it is odd"), excluded)
	}
}

// TestDelayedNameRemoval: an or of which only one side loses its names at the
// end of the query stays, since an executor's answer says it for all series.
func TestDelayedNameRemoval(t *testing.T) {
	for qs, parts := range map[string]int{"-a or b": 2, "-a or -b": 1, "a or b": 1, "-a and b": 1, "a unless -b": 1,
		"sum by (x) (-a or b)": 1, "sum by (__name__) (-a or b)": 2, "topk(1, -a or b)": 2, "max(topk(1, -a or b))": 1, "abs(-a or b)": 1, "(-a or b) > 1": 2,
		"(-a or b) > on (x) c": 1} {
		for _, delayed := range []bool{false, true} {
			e := env()
			e.DelayedNameRemoval = delayed
			got, _ := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
			want := 1
			if delayed {
				want = parts
			}
			require.Len(t, got, want, "%s delayed %v", qs, delayed)
		}
	}
}

// TestDelayedNames: setting a name keeps it from being removed at the end of the
// query. Where that is so for some series only, the function stays.
func TestDelayedNames(t *testing.T) {
	for qs, want := range map[string]string{
		`label_replace(x, "__name__", "y", "job", "(.*)")`:  `label_replace(x, "__name__", "y", "job", "(.*)")`,
		`label_replace(-x, "__name__", "y", "job", "(.*)")`: `-x drops`,
		`label_replace(-x, "a", "y", "job", "(.*)")`:        `label_replace(-x, "a", "y", "job", "(.*)") drops`,
		`label_join(-x, "__name__", "y", "job")`:            `label_join(-x, "__name__", "y", "job")`,
		`label_join(-x, "job", "y", "__name__")`:            `label_join(-x, "job", "y", "__name__") drops`,
		`sort(-x)`:                                          `sort(-x) drops`,
	} {
		e := env()
		e.DelayedNameRemoval = true
		parts, _ := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
		require.Len(t, parts, 1, qs)
		got := parts[0].Node.String()
		if parts[0].Node.DropsName() {
			got += " drops"
		}
		require.Equal(t, want, got, qs)
	}
}

// TestSortRanged: whether an evaluation is at a single time decides whether
// sorting has an effect, not how many steps there are.
func TestSortRanged(t *testing.T) {
	for _, c := range []struct {
		query      string
		start, end int64
		ranged     bool
	}{
		{`sort(x)`, 600_000, 600_000, false},
		{`sort(x)`, 600_000, 600_001, true},
		{`sort(x @ 7)`, 600_000, 900_000, false},
		{`max_over_time(sort(x)[1m:1m])`, 600_000, 600_000, false},
		{`max_over_time(sort(x)[1m:1m])`, 630_000, 630_000, true},
	} {
		parts, _ := planned(t, prepare(t, c.query, c.start, c.end, 60_000), env())
		require.Len(t, parts, 1, c.query)
		n := parts[0].Node
		if once, ok := n.(*plan.Once); ok {
			n = once.Input
		} else {
			require.Equal(t, 1, parts[0].Grid.Steps)
		}
		if sub, ok := n.(*plan.Subwindow); ok {
			require.Equal(t, 1, sub.Inner.Steps, c.query)
			n = sub.Input
		}
		require.Equal(t, c.ranged, n.(*plan.Sort).Ranged, "%s %d..%d", c.query, c.start, c.end)
	}
}

// TestInstant: an instant query is a grid of one step.
func TestInstant(t *testing.T) {
	parts, _ := planned(t, prepare(t, `sum(rate(foo[5m]))`, 600_000, 600_000, 0), env())
	require.Equal(t, plan.Grid{Start: 600_000, Interval: 1, Steps: 1}, parts[0].Grid)
}

// infosOf says when the infos at and below n read info series.
func infosOf(n plan.Node) (s string) {
	if n, ok := n.(*plan.Info); ok {
		s = " at"
		if n.Fixed != nil {
			s += fmt.Sprint(" ", *n.Fixed/1000)
		}
		if n.Fixed == nil || n.Offset != 0 {
			s += " " + (time.Duration(n.Offset) * time.Millisecond).String()
		}
	}
	for _, in := range n.Inputs() {
		s += infosOf(in)
	}
	return s
}

// TestEveryFunction: each function of range vectors that has a definition is planned.
func TestEveryFunction(t *testing.T) {
	for _, name := range window.Names() {
		t.Run(name, func(t *testing.T) {
			f := window.Named(name)
			args, types := "m[5m]", []parser.ValueType{parser.ValueTypeMatrix}
			switch f.Param {
			case plan.ParamBefore:
				args, types = "0.5, "+args, append([]parser.ValueType{parser.ValueTypeScalar}, types...)
			case plan.ParamAfter:
				args, types = args+", 0.5", append(types, parser.ValueTypeScalar)
			case plan.TwoParamsAfter:
				args, types = args+", 0.5, 0.5", append(types, parser.ValueTypeScalar, parser.ValueTypeScalar)
			}
			if parser.Functions[name] == nil { // promwarp's own, of which Prometheus's parser does not know
				parser.Functions[name] = &parser.Function{Name: name, ArgTypes: types, ReturnType: parser.ValueTypeVector}
				defer delete(parser.Functions, name)
			}
			parts, _ := planned(t, prepare(t, name+"("+args+")", 0, 600, 60), env())
			require.Len(t, parts, 1)
			require.Same(t, f, parts[0].Node.(*plan.Window).Func)
		})
	}
}

// FuzzPlan: whatever parses is planned without a panic, every node has someone who evaluates
// it, and the query is as it was.
func FuzzPlan(f *testing.F) {
	for _, s := range []string{
		`sum by (a) (rate(x[5m])) / on (a) group_left () y`, `label_replace(x, "type", "$1", "b", "(.*)")`, `max_over_time((x @ 100)[10m:1m] offset 5m)`,
		`topk(scalar(x), -y) or absent(z{a="1"})`, `histogram_quantile(0.9, histogram_quantile(time(), x))`, `info(x offset 5m, {a=~"b"})`,
		`quantile_over_time(1 / (2 - pi()), x[5m:])`, `vector(scalar(x) ^ -2) > bool 3`, `count_values("", x)`, `clamp(x, time(), 1 + 1)`, `histogram_quantiles(x, "q", 0.5, 1)`,
	} {
		f.Add(s, int64(3_600_000), int64(7_200_000), int64(60_000), false)
		f.Add(s, int64(0), int64(0), int64(0), true)
	}
	p := Limits{Depth: 100, Length: 2000, RegexpSize: 10_000}.Parser(parser.NewParser(promqltest.TestParserOpts))
	f.Fuzz(func(t *testing.T, query string, start, end, step int64, delayed bool) {
		if step < 0 || end < start || start < 0 || end > 1<<42 {
			return
		}
		expr, err := p.ParseExpr(query)
		if err != nil || expr.Type() != parser.ValueTypeVector && expr.Type() != parser.ValueTypeScalar {
			return
		}
		s := &parser.EvalStmt{
			Start: time.UnixMilli(start), End: time.UnixMilli(end), Interval: time.Duration(step) * time.Millisecond, LookbackDelta: 5 * time.Minute,
		}
		if s.Expr, err = promql.PreprocessExpr(expr, s.Start, s.End, s.Interval); err != nil {
			return
		}
		before := s.Expr.String()
		e := env()
		e.DelayedNameRemoval = delayed
		parts, root := planned(t, s, e)
		require.Equal(t, before, s.Expr.String())
		for _, part := range parts {
			require.Equal(t, part.Expr, *part.Slot)
		}
		root.Render(query)
		root.Walk(func(d *plan.Decision) {
			require.NotEmpty(t, d.Executor)
			require.True(t, d.Executor != plan.OnPrometheus || d.Reason != "", d.Expr)
		})
	})
}

// TestFacts: what is found once of an expression is what it says itself.
func TestFacts(t *testing.T) {
	for _, qs := range []string{
		`-(1 + 2) ^ 3 * pi()`, `sum(x) + (y - 1) * -z`, `max_over_time((x * 2)[5m:1m] offset 1m)`, `sum(rate(x[5m] @ 3)) or vector(time() - 1)`,
		`label_join(x, "a", "-", "b") > bool scalar(y)`, `topk(1 + 1, (((x))))`, `1 == bool 2`, `x @ 1 + y`,
	} {
		stmt := prepare(t, qs, 0, 600_000, 60_000)
		w := walker{facts: map[parser.Expr]*facts{}}
		w.learn(stmt.Expr)
		parser.Inspect(stmt.Expr, func(n parser.Node, _ []parser.Node) error {
			if e, ok := n.(parser.Expr); ok && e != nil {
				require.Equal(t, e.PositionRange(), w.facts[e].pos, "%s in %s", e, qs)
				require.Equal(t, e.Type(), w.facts[e].typ, "%s in %s", e, qs)
				require.Equal(t, strings.ContainsAny(e.String(), "xyz") && len(parser.ExtractSelectors(e)) > 0, w.facts[e].selects, "%s in %s", e, qs)
			}
			return nil
		})
	}
}

// TestPlanHeedsTheContext: planning ends with its context, in the words of Prometheus's
// engine.
func TestPlanHeedsTheContext(t *testing.T) {
	stmt := prepare(t, "x"+strings.Repeat(" + histogram_count(x)", 500), 0, 600_000, 60_000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := Plan(ctx, stmt, env())
	require.Equal(t, promql.ErrQueryCanceled("expression evaluation"), err)
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, _, err = Plan(ctx, stmt, env())
	require.Equal(t, promql.ErrQueryTimeout("expression evaluation"), err)
}

// TestPlanningIsLinear: each expression is compiled a fixed number of times, whatever is left
// to Prometheus's engine above and below it, and reasons do not grow with the depth.
func TestPlanningIsLinear(t *testing.T) {
	const n = 1000
	for name, qs := range map[string]string{
		"nested": strings.Repeat("sum(", n) + "histogram_count(x)" + strings.Repeat(")", n),
		"right":  strings.Repeat("(x + ", n) + "histogram_count(x)" + strings.Repeat(")", n),
		"left":   "histogram_count(x)" + strings.Repeat(" or x", n),
		"fine":   "x" + strings.Repeat(" * x", n),
		"idle":   strings.Repeat("sum(", n) + "max_over_time(x[30s:1m] @ 50)" + strings.Repeat(")", n),
	} {
		for _, delayed := range []bool{false, true} {
			stmt := prepare(t, qs, 0, 600_000, 60_000)
			e := env()
			e.DelayedNameRemoval = delayed
			w := newWalker(t.Context(), stmt, e)
			root := w.plan(stmt)
			require.Less(t, w.steps, 20*n, name)
			root.Walk(func(d *plan.Decision) { require.Less(t, len(d.Reason), 1000, name) })
		}
	}
}
