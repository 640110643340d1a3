package planner

import (
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
func planned(t testing.TB, stmt *parser.EvalStmt, e Env) *Plan {
	p, err := New(t.Context(), stmt, e)
	require.NoError(t, err)
	return p
}

// TestPlan is a table of queries and their plans: what is computed, on
// which grid, and what reads which times. Those without one are evaluated by Prometheus's engine.
func TestPlan(t *testing.T) {
	const start, end, step = 3_600_000, 7_200_000, 60_000
	for _, c := range []struct {
		query string
		plan  string // "node | start+interval*steps | reads from..to"
	}{
		{`x`, `x | 3600+60*61 | reads 3300.001..7200`},
		{`sum(x)`, `sum(x) | 3600+60*61 | reads 3300.001..7200`},
		{`sum by (b, a) (rate(x[5m]))`, `sum by (b, a) (rate(x[5m])) | 3600+60*61 | reads 3300.001..7200`},
		{`max(sum without (a) (increase(x[1h] offset 10m)))`, `max(sum without (a) (increase(x[1h] offset 10m))) | 3600+60*61 | reads -600+0.001..6600`},
		{`(((x)))`, `x | 3600+60*61 | reads 3300.001..7200`},
		{`stddev(x)`, `stddev(x) | 3600+60*61 | reads 3300.001..7200`},
		{`quantile by (a) (0.5, x)`, `quantile by (a) (0.5, x) | 3600+60*61 | reads 3300.001..7200`},
		{`quantile(2, x)`, `quantile(2, x) | 3600+60*61 | reads 3300.001..7200`},
		{`topk(2, x)`, `topk(2, x) | 3600+60*61 | reads 3300.001..7200`},
		{`bottomk by (a) (-(1), sum by (a, b) (rate(x[5m]))) * 2`, `bottomk by (a) (-(1), sum by (a, b) (rate(x[5m]))) * 2 | 3600+60*61 | reads 3300.001..7200`},
		{`topk(NaN, x)`, `topk(NaN, x) | 3600+60*61 | reads 3300.001..7200`},
		{`topk(-Inf, x)`, `topk(-Inf, x) | 3600+60*61 | reads 3300.001..7200`},
		{`limitk(9223372036854774784, x)`, `limitk(9223372036854775000, x) | 3600+60*61 | reads 3300.001..7200`},
		{`limitk(9223372036854773760, x)`, `limitk(9223372036854774000, x) | 3600+60*61 | reads 3300.001..7200`},
		{`limit_ratio(-1, x)`, `limit_ratio(-1, x) | 3600+60*61 | reads 3300.001..7200`},
		{`limit_ratio(1.5, x)`, `limit_ratio(1.5, x) | 3600+60*61 | reads 3300.001..7200`},
		{`limit_ratio(NaN, x)`, `limit_ratio(NaN, x) | 3600+60*61 | reads 3300.001..7200`},
		{`max(count_values by (a) ("b", x))`, `max(count_values by (a) ("b", x)) | 3600+60*61 | reads 3300.001..7200`},
		{`count_values("", x)`, ""},
		{`count_values("v", max_over_time(x[5m]))`, `count_values("v", max_over_time(x[5m])) | 3600+60*61 | reads 3300.001..7200`},
		{`count_values("v", abs(stddev_over_time(x[5m])))`, ""},
		{`count_values("v", abs(stddev_over_time(x[5m])) + max_over_time(x[5m]))`, ""},
		{`sum(a) / sum(b)`, `sum(a) / sum(b) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`topk(scalar(max(k)), rate(x[1m]))`, `topk(scalar(max(k)), rate(x[1m])) | 3600+60*61 | reads 3300.001..7200 | reads 3540.001..7200`},
		{`double_exponential_smoothing(x[5m], 0.5, 0.5)`, `double_exponential_smoothing(x[5m], 0.5, 0.5) | 3600+60*61 | reads 3300.001..7200`},
		{`double_exponential_smoothing(x[5m], 0.5, 1)`, `double_exponential_smoothing(x[5m], 0.5, 1) | 3600+60*61 | reads 3300.001..7200`},
		{`double_exponential_smoothing(x[5m], NaN, 0.5)`, `double_exponential_smoothing(x[5m], NaN, 0.5) | 3600+60*61 | reads 3300.001..7200`},
		{`double_exponential_smoothing(x[5m], 0.5, time())`, `double_exponential_smoothing(x[5m], 0.5, time()) | 3600+60*61 | reads 3300.001..7200`},
		// Classic histograms.
		{`histogram_quantile(0.9, x)`, `histogram_quantile(0.9, x) | 3600+60*61 | reads 3300.001..7200`},
		{`max(histogram_quantile(2, sum by (le) (rate(x[5m]))) * 2)`, `max(histogram_quantile(2, sum by (le) (rate(x[5m]))) * 2) | 3600+60*61 | reads 3300.001..7200`},
		{`histogram_fraction(0, 1 / 2, rate(x[5m]))`, `histogram_fraction(0, 1 / 2, rate(x[5m])) | 3600+60*61 | reads 3300.001..7200`},
		{`histogram_quantile(time(), x)`, `histogram_quantile(time(), x) | 3600+60*61 | reads 3300.001..7200`},
		{`histogram_quantile(0.9, topk(1, x))`, `histogram_quantile(0.9, topk(1, x)) | 3600+60*61 | reads 3300.001..7200`},
		{`histogram_quantile(0.9, sum(histogram_quantile(0.9, x)))`, ""},
		{`histogram_count(x)`, ""},
		{`quantile_over_time(0.9, x[5m])`, `quantile_over_time(0.9, x[5m]) | 3600+60*61 | reads 3300.001..7200`},
		{`predict_linear(x[5m], -(60))`, `predict_linear(x[5m], -(60)) | 3600+60*61 | reads 3300.001..7200`},
		{`predict_linear(x[5m], 4 * 3600) < 2 ^ 2`, `predict_linear(x[5m], 4 * 3600) < 2 ^ 2 | 3600+60*61 | reads 3300.001..7200`},
		{`x > 14.4 * (0.002 - 0.001) / 2`, `x > 14.4 * (0.002 - 0.001) / 2 | 3600+60*61 | reads 3300.001..7200`},
		{`predict_linear(x[5m], time())`, `predict_linear(x[5m], time()) | 3600+60*61 | reads 3300.001..7200`},
		{`quantile_over_time(2, x[5m])`, `quantile_over_time(2, x[5m]) | 3600+60*61 | reads 3300.001..7200`},
		{`avg_over_time(x[5m:1m])`, `avg_over_time(x[5m:1m]) | 3600+60*61 | x on 3360+60*65 | reads 3060.001..7200`},
		{`absent_over_time(x[5m:1m])`, `absent_over_time(x[5m:1m]) {} | 3600+60*61 | x on 3360+60*65 | reads 3060.001..7200`},
		{`1 + 2`, ""},
		{`sum(abs(x) * -2 > bool 1)`, `sum(abs(x) * -2 > bool 1) | 3600+60*61 | reads 3300.001..7200`},
		{`2 - rate(x[1m])`, `2 - rate(x[1m]) | 3600+60*61 | reads 3540.001..7200`},
		{`-x`, `-x | 3600+60*61 | reads 3300.001..7200`},
		{`+sum(x)`, `sum(x) | 3600+60*61 | reads 3300.001..7200`},
		{`clamp(x, 0, 1)`, `clamp(x, 0, 1) | 3600+60*61 | reads 3300.001..7200`},
		{`clamp(x, 1, 0)`, `clamp(x, 1, 0) | 3600+60*61 | reads 3300.001..7200`},
		{`x ^ (7 % 4 atan2 pi()) + (1 > bool 2)`, `x ^ (7 % 4 atan2 pi()) + (1 > bool 2) | 3600+60*61 | reads 3300.001..7200`},
		// Scalars, too, have plans if they read samples.
		{`time()`, ""},
		{`vector(time())`, ""},
		{`vector(1)`, ""},
		{`scalar(sum(y))`, `scalar(sum(y)) | 3600+60*61 | reads 3300.001..7200`},
		{`-scalar(y) + time() * max_of(2, 3)`, `-scalar(y) + time() * max_of(2, 3) | 3600+60*61 | reads 3300.001..7200 | once`},
		{`hour() > 8 and x`, `hour() > 8 and x | 3600+60*61 | reads 3300.001..7200`},
		{`day_of_week(x)`, `day_of_week(x) | 3600+60*61 | reads 3300.001..7200`},
		{`hour()`, ""},
		{`x * time()`, `x * time() | 3600+60*61 | reads 3300.001..7200`},
		{`abs(time() - x)`, `abs(time() - x) | 3600+60*61 | reads 3300.001..7200`},
		{`x * scalar(sum(y))`, `x * scalar(sum(y)) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`clamp(x, -(time() / 2), 4)`, `clamp(x, -(time() / 2), 4) | 3600+60*61 | reads 3300.001..7200`},
		{`x * scalar(sort(y))`, `x * scalar(sort(y)) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`x * scalar(topk(time(), y))`, `x * scalar(topk(time(), y)) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`sum(x) or vector(0)`, `sum(x) or vector(0) | 3600+60*61 | reads 3300.001..7200 | once`},
		{`vector(scalar(x) + 1)`, `vector(scalar(x) + 1) | 3600+60*61 | reads 3300.001..7200`},
		{`max_over_time((x > time())[5m:1m])`, `max_over_time((x > time())[5m:1m]) | 3600+60*61 | x > time() on 3360+60*65 | reads 3060.001..7200`},
		// Operators between vectors, at any depth.
		{`a + on (b) group_left (c) d`, `a + on (b) group_left (c) d | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`sum by (x) (a * on (i) group_left (v) b)`, `sum by (x) (a * on (i) group_left (v) b) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`a > bool ignoring (x) b`, `a > bool ignoring (x) b | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`-(a and b) * 2`, `-(a and b) * 2 | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`a unless on () (b != 0)`, `a unless on () (b != 0) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`max(sum by (j) (rate(a[5m])) / sum by (j) (rate(b[5m])))`, `max(sum by (j) (rate(a[5m])) / sum by (j) (rate(b[5m]))) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`absent(a - b)`, `absent(a - b) {} | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`a - b * c`, `a - b * c | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`max_over_time((a / b)[5m:1m])`, `max_over_time((a / b)[5m:1m]) | 3600+60*61 | a / b on 3360+60*65 | reads 3060.001..7200 | reads 3060.001..7200`},
		{`a / topk(1, b)`, `a / topk(1, b) | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`a + fill(0) b`, `a + fill (0) b | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		// Functions of labels, and of the order of series.
		{`label_replace(x, "a", "$1", "b", "(.*)")`, `label_replace(x, "a", "$1", "b", "(.*)") | 3600+60*61 | reads 3300.001..7200`},
		{`sum by (a) (label_join(rate(x[5m]), "a", "-", "b", "c") * 2)`, `sum by (a) (label_join(rate(x[5m]), "a", "-", "b", "c") * 2) | 3600+60*61 | reads 3300.001..7200`},
		{`label_join(x, "a", "-")`, `label_join(x, "a", "-") | 3600+60*61 | reads 3300.001..7200`},
		{`label_replace(x, "a", "$1", "b", "(.*")`, ""},
		{`label_replace(x, "", "$1", "b", "(.*)")`, ""},
		{`y + label_replace(x, "", "$1", "b", "(.*)")`, `y + label_replace(x, "", "$1", "b", "(.*)") | 3600+60*61 | reads 3300.001..7200`},
		{`label_join(x, "a", "$1", "")`, ""},
		{`label_join(x, "", "$1", "b")`, ""},
		{`sort(x)`, `sort(x) (ranged) | 3600+60*61 | reads 3300.001..7200`},
		{`sort_desc(sum by (a) (rate(x[5m])))`, `sort_desc(sum by (a) (rate(x[5m]))) (ranged) | 3600+60*61 | reads 3300.001..7200`},
		{`sort_by_label(x @ 100, "a", "b")`, `sort_by_label(x @ 100.000, "a", "b") | 3600+60*61 | once | reads -199.999..100`},
		{`sort(max_over_time(x[5m:1m] @ 100))`, `sort(max_over_time(x[5m:1m] @ 100.000)) | 3600+60*61 | once | x on -180+60*5 | reads -479.999..60`},
		{`start_timestamp(x)`, ""},
		// A bare selector's equality matchers become labels.
		{`absent(x)`, `absent(x) {} | 3600+60*61 | reads 3300.001..7200`},
		{`absent(x{a="1",b=~"2"})`, `absent(x{a="1",b=~"2"}) {a="1"} | 3600+60*61 | reads 3300.001..7200`},
		{`absent((x{a="1"}))`, `absent(x{a="1"}) {a="1"} | 3600+60*61 | reads 3300.001..7200`},
		{`absent(x{a="1",a!="2"})`, `absent(x{a!="2",a="1"}) {} | 3600+60*61 | reads 3300.001..7200`},
		{`absent(x{a=~"1",a="2",b="3",b="3",c!="",c="4"})`, `absent(x{a="2",a=~"1",b="3",b="3",c!="",c="4"}) {a="2", c="4"} | 3600+60*61 | reads 3300.001..7200`},
		{`absent(x{a!="2",a="1"})`, ""}, // it depends on whether the storage reorders them
		{`absent_over_time(x{a="1"}[5m] offset 1m)`, `absent_over_time(x{a="1"}[5m] offset 1m) {a="1"} | 3600+60*61 | reads 3240.001..7140`},
		{`absent(sum(x{a="1"}))`, `absent(sum(x{a="1"})) {} | 3600+60*61 | reads 3300.001..7200`},
		{`timestamp(x)`, `timestamp(x) | 3600+60*61 | reads 3300.001..7200`},
		{`timestamp(x @ 100)`, `timestamp(x @ 100.000) | 3600+60*61 | once | reads -199.999..100`},
		{`timestamp(x @ 100 offset 5m)`, ""},
		{`timestamp(rate(x[5m]))`, `timestamp(rate(x[5m])) | 3600+60*61 | reads 3300.001..7200`},
		// Anchored and smoothed selectors read more than their windows.
		{`rate(x[5m] anchored)`, `rate(x[5m] anchored) | 3600+60*61 | reads 3000.001..7200`},
		{`rate(x[5m] smoothed offset 1m)`, `rate(x[5m] smoothed offset 1m) | 3600+60*61 | reads 2940.001..7440`},
		{`sum(delta(x[5m] smoothed @ 100))`, `sum(delta(x[5m] smoothed @ 100.000)) | 3600+60*61 | once | reads -499.999..400`},
		{`max_over_time(resets(x[5m] anchored)[10m:1m])`, `max_over_time(resets(x[5m] anchored)[10m:1m]) | 3600+60*61 | resets(x[5m] anchored) on 3060+60*70 | reads 2460.001..7200`},
		{`x smoothed`, `x smoothed | 3600+60*61 | reads 3300.001..7500`},
		{`sum(x anchored)`, `sum(x anchored) | 3600+60*61 | reads 3300.001..7200`},
		{`timestamp(x smoothed)`, `timestamp(x smoothed) | 3600+60*61 | reads 3300.001..7200`},
		{`resets(x[5m] smoothed)`, ""},
		{`sum(irate(x[5m] anchored))`, ""},
		{`absent_over_time(x[5m] anchored)`, ""},
		{`rate(x[300.0005])`, ""},
		// Info series are read when the selectors of the first argument are.
		{`info(rate(x[5m]))`, `info(rate(x[5m])) at 0s | 3600+60*61 | reads 3300.001..7200`},
		{`sum by (v) (info(rate(x[5m] offset 1m), {v="1"}))`, `sum by (v) (info(rate(x[5m] offset 1m), {v="1"})) at 1m0s | 3600+60*61 | reads 3240.001..7140`},
		{`info(x offset 1m + y offset 60s)`, `info(x offset 1m + y offset 1m) at 1m0s | 3600+60*61 | reads 3240.001..7140 | reads 3240.001..7140`},
		{`info(x offset 1m + y)`, `info(x offset 1m + y) at 0s | 3600+60*61 | reads 3240.001..7140 | reads 3300.001..7200`},
		{`info(x offset 1m or vector(1))`, `info(x offset 1m or vector(1)) at 0s | 3600+60*61 | reads 3240.001..7140 | once`},
		{`info(x @ 100 offset 1m)`, `info(x @ 100.000 offset 1m) at 100 1m0s | 3600+60*61 | once | reads -259.999..40`},
		{`info(max_over_time(x[5m:1m] offset 1m))`, `info(max_over_time(x[5m:1m] offset 1m)) at 1m0s | 3600+60*61 | x on 3300+60*65 | reads 3000.001..7140`},
		{`info(info(x offset 1m), {__name__="y_info"})`, `info(info(x offset 1m), {__name__="y_info"}) at 1m0s at 1m0s | 3600+60*61 | reads 3240.001..7140`},
		{`info(rate(x[5m]) or absent(y{a="1",a!="2"}))`, `info(rate(x[5m]) or absent(y{a!="2",a="1"})) at 0s | 3600+60*61 | reads 3300.001..7200 | reads 3300.001..7200`},
		{`info(rate(x[5m] offset 1m) or absent(y{a="1",a!="2"} offset 1m))`, `info(rate(x[5m] offset 1m) or absent(y{a!="2",a="1"} offset 1m)) at 1m0s | 3600+60*61 | reads 3240.001..7140 | reads 3240.001..7140`},
		{`last_over_time(info(x)[5m:1m])`, ""}, // info may set a type
		// @ is step-invariant: one step, repeated.
		{`x @ 100`, `x @ 100.000 | 3600+60*61 | once | reads -199.999..100`},
		{`sum(rate(x[1m] @ end() offset 30s)) + y`, `sum(rate(x[1m] @ 7200.000 offset 30s)) + y | 3600+60*61 | once | reads 7110.001..7170 | reads 3300.001..7200`},
		{`sum(info(y @ 100) + x @ 100)`, `sum(info(y @ 100.000) + x @ 100.000) at 100 | 3600+60*61 | once | reads -199.999..100 | reads -199.999..100`},
		// Subqueries have a grid of their own, aligned to their step.
		{`sum(max_over_time(rate(x[5m])[10m:50s]))`, `sum(max_over_time(rate(x[5m])[10m:50s])) | 3600+60*61 | rate(x[5m]) on 3050+50*84 | reads 2750.001..7200`},
		{`max_over_time(x[10m:])`, `max_over_time(x[10m:]) | 3600+60*61 | x on 3060+60*70 | reads 2760.001..7200`},
		{`max_over_time(x[10m:1m] offset 30s)`, `max_over_time(x[10m:1m] offset 30s) | 3600+60*61 | x on 3000+60*70 | reads 2700.001..7140`},
		{`max_over_time(x[10m:1m] @ 5000)`, `max_over_time(x[10m:1m] @ 5000.000) | 3600+60*61 | once | x on 4440+60*10 | reads 4140.001..4980`},
		{`max_over_time(max_over_time(x[2m:30s])[4m:1m])`, `max_over_time(max_over_time(x[2m:30s])[4m:1m]) | 3600+60*61 | max_over_time(x[2m:30s]) on 3420+60*64 | x on 3330+30*130 | reads 3030.001..7200`},
		{`max_over_time((x @ 100)[10m:1m])`, `max_over_time((x @ 100.000)[10m:1m]) | 3600+60*61 | (x @ 100.000) on 3060+60*70 | once | reads -199.999..100`},
		{`max_over_time((x @ 100)[10m:1m] offset 5m)`, `max_over_time((x @ 100.000)[10m:1m] offset 5m) | 3600+60*61 | (x @ 100.000) on 2760+60*70 | once | reads -199.999..100`},
		{`max_over_time((x @ 100)[10m:1m] @ 200)`, `max_over_time((x @ 100.000)[10m:1m] @ 200.000) | 3600+60*61 | once | (x @ 100.000) on -360+60*10 | once | reads -199.999..100`},
		{`max_over_time(max_over_time(x[2m:30s] @ 50)[4m:1m])`, `max_over_time(max_over_time(x[2m:30s] @ 50.000)[4m:1m]) | 3600+60*61 | max_over_time(x[2m:30s] @ 50.000) on 3420+60*64 | once | x on -60+30*4 | reads -359.999..30`},
		// There Prometheus's engine shifts @, as the subquery starts where the query does.
		{`max_over_time((x @ 100)[5m:1m] offset -4m)`, ""},
		{`max_over_time(max_over_time(x[2m:30s] @ 50)[5m:1m] offset -4m)`, ""},
		{`max_over_time(x[30s:1m] @ 50)`, ""}, // has no steps
	} {
		t.Run(c.query, func(t *testing.T) {
			stmt := prepare(t, c.query, start, end, step)
			before := stmt.Expr.String()
			p := planned(t, stmt, env())
			require.Equal(t, before, stmt.Expr.String(), "planning must not change the query")
			// One sum in the table reads better unresolved.
			require.Equal(t, strings.Replace(c.plan, "-600+0.001", "-599.999", 1), render(p))
			p.Root.Walk(func(d *plan.Decision) {
				if d.Executor == plan.OnPrometheus {
					require.NotEmpty(t, d.Reason, d.Expr)
				}
			})
		})
	}
}

func render(p *Plan) string {
	if p.Node == nil {
		return ""
	}
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
	return s
}

// TestLeave: because of an expression the whole query goes to Prometheus's engine. The explanation
// gives the reason at the expression, and names it everywhere else.
func TestLeave(t *testing.T) {
	const qs, whole = `sum(rate(foo[5m]) * b) + scalar(c) * -(2)`, "the whole query stays with Prometheus's engine: it is odd"
	for _, odd := range []string{qs, "sum(rate(foo[5m]) * b)", "rate(foo[5m]) * b", "foo", "scalar(c)"} {
		p := planned(t, prepare(t, qs, 0, 600_000, 60_000), env())
		require.NotNil(t, p.Node)
		i := strings.Index(qs, odd)
		p.Leave(posrange.PositionRange{Start: posrange.Pos(i), End: posrange.Pos(i + len(odd))}, "it is odd")
		require.Nil(t, p.Node)
		p.Root.Render(qs)
		var own []string
		p.Root.Walk(func(d *plan.Decision) {
			require.Equal(t, plan.OnPrometheus, d.Executor)
			switch {
			case d.Own:
				own = append(own, d.Expr)
				require.Equal(t, "it is odd", d.Reason)
			case d.Idle:
				require.Contains(t, []string{"-(2)", "(2)", "2"}, d.Expr)
			default:
				require.Equal(t, whole, d.Reason, d.Expr)
			}
		})
		require.Equal(t, []string{odd}, own)
	}
}

// TestDelayedNameRemoval: an or of which only one side loses its names at the
// end of the query stays, since an executor's answer says it for all series, unless the series of the
// other side have none.
func TestDelayedNameRemoval(t *testing.T) {
	for qs, taken := range map[string]bool{"-a or b": false, "-a or -b": true, "a or b": true, "-a and b": true, "a unless -b": true,
		"sum by (x) (-a or b)": true, "sum by (__name__) (-a or b)": false, "topk(1, -a or b)": false, "max(topk(1, -a or b))": true,
		"abs(-a or b)": true, "(-a or b) > 1": false, "(-a or b) > on (x) c": true,
		"sum(rate(a[5m])) or vector(0)": true, "rate(a[5m]) or vector(1)": true, "vector(1) or a": true, "sum by (x) (-a) or b": true,
		"sum without (x) (-a) or b": false, "sum by (__type__) (-a) or b": false, "(a / b) or rate(c[5m])": true,
		"(a / on (x) group_left (__name__) b) or -c": false, "topk(1, sum by (x) (-a)) * 2 or b": true,
		"histogram_quantile(0.9, sum by (le) (rate(a[5m]))) or b": true, "histogram_quantile(0.9, a) or b": false,
		`label_replace(sum(-a) or b, "__type__", "c", "", "")`: false, "info(sum(-a) or b)": false,
	} {
		for _, delayed := range []bool{false, true} {
			e := env()
			e.DelayedNameRemoval = delayed
			p := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
			require.Equal(t, taken || !delayed, p.Node != nil, "%s delayed %v", qs, delayed)
		}
	}
}

// TestDelayedNames: setting a name keeps it from being removed at the end of the
// query. Where that is so for some series only, the function stays.
func TestDelayedNames(t *testing.T) {
	for qs, want := range map[string]string{
		`label_replace(x, "__name__", "y", "job", "(.*)")`:  `label_replace(x, "__name__", "y", "job", "(.*)")`,
		`label_replace(-x, "__name__", "y", "job", "(.*)")`: `label_replace(-x, "__name__", "y", "job", "(.*)")`,
		`label_replace(-x, "__name__", "y", "job", "(.+)")`: "",
		`label_replace(-x, "__name__", "y", "job", "")`:     "",
		`label_replace(-x, "__name__", "y", "", "")`:        `label_replace(-x, "__name__", "y", "", "")`,
		`label_replace(-x, "__name__", "y", "", "a")`:       "",
		`label_replace(-x, "a", "y", "job", "(.*)")`:        `label_replace(-x, "a", "y", "job", "(.*)") drops`,
		`label_join(-x, "__name__", "y", "job")`:            `label_join(-x, "__name__", "y", "job")`,
		`label_join(-x, "job", "y", "__name__")`:            `label_join(-x, "job", "y", "__name__") drops`,
		`sort(-x)`:                                          `sort(-x) drops`,
		`sum(-x) or y`:                                      `sum(-x) or y`,
		`vector(1) or -y`:                                   `vector(1) or -y drops`,
	} {
		e := env()
		e.DelayedNameRemoval = true
		p := planned(t, prepare(t, qs, 0, 600_000, 60_000), e)
		if p.Node == nil {
			require.Empty(t, want, qs)
			continue
		}
		got := p.Node.String()
		if p.Node.DropsName() {
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
		p := planned(t, prepare(t, c.query, c.start, c.end, 60_000), env())
		require.NotNil(t, p.Node, c.query)
		n := p.Node
		if once, ok := n.(*plan.Once); ok {
			n = once.Input
		} else {
			require.Equal(t, 1, p.Grid.Steps)
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
	p := planned(t, prepare(t, `sum(rate(foo[5m]))`, 600_000, 600_000, 0), env())
	require.Equal(t, plan.Grid{Start: 600_000, Interval: 1, Steps: 1}, p.Grid)
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
			p := planned(t, prepare(t, name+"("+args+")", 0, 600, 60), env())
			require.NotNil(t, p.Node)
			require.Same(t, f, p.Node.(*plan.Window).Func)
		})
	}
}
