package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
)

// someConstants are not measured, so that tests start at once.
var someConstants = placement.Constants{
	Cores:  placement.Costs{Sample: 10, Window: 10, Slow: 1},
	Device: placement.Costs{Fixed: time.Millisecond, Sample: 0.1, Window: 0.1, Slow: 1},
	Link:   10e9,
}

// testGPUs has the GPUs of the driver for tests, closed with the
// test, and the registry of its metrics.
func testGPUs(t testing.TB, change ...func(*placement.Options)) (*placement.Placer, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	o := placement.Options{
		Options:   device.Options{Require: true, MemoryFraction: 0.05, Library: cudatest.Library(t), Registerer: reg},
		Constants: &someConstants, Workers: 2,
	}
	for _, f := range change {
		f(&o)
	}
	gpus, err := placement.Open(o)
	require.NoError(t, err)
	t.Cleanup(gpus.Close)
	return gpus, reg
}

// metric is the sum of a metric over its labels.
func metric(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	all, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range all {
		for _, m := range family.Metric {
			if family.GetName() == name {
				sum += m.Counter.GetValue() + m.Gauge.GetValue()
			}
		}
	}
	return sum
}

// declines lists what was left to the cores, by reason.
func declines(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	return countersOf(t, reg, "promwarp_gpu_declined_total")
}

// countersOf are the values of a family of counters, by their first label.
func countersOf(t testing.TB, reg *prometheus.Registry, name string) map[string]float64 {
	all, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, family := range all {
		for _, m := range family.Metric {
			if family.GetName() == name {
				out[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	return out
}

// onGPUs has a comparison ask with a GPU forced.
func (c *comparison) onGPUs(gpus *placement.Placer) *comparison {
	c.ours.opts.GPUs = gpus
	c.asked = inMode{c.ours, GPU}
	return c
}

// TestGPUSuite runs Prometheus's own acceptance suite with a GPU forced.
func TestGPUSuite(t *testing.T) {
	gpus, reg := testGPUs(t)
	opts := suiteOpts()
	e := New(Options{Prometheus: opts, Workers: 2, GPUs: gpus})
	defer e.Close()
	promqltest.RunBuiltinTests(t, inMode{e, GPU})
	jobs := metric(t, reg, "promwarp_gpu_jobs_total")
	t.Logf("%v leaves on the GPU; left to the cores: %v", jobs, declines(t, reg))
	require.Greater(t, jobs, 11900.0)
	require.Zero(t, metric(t, reg, "promwarp_gpu_faults_total"))
}

// TestGPURandomQueries compares with Prometheus's engine, as TestRandomQueries does,
// with a GPU forced. PROMWARP_RANDOM sets the number of queries.
func TestGPURandomQueries(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 300)
	gpus, reg := testGPUs(t)
	for _, delayed := range []bool{false, true} {
		t.Run(fmt.Sprintf("delayed=%v", delayed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(17, 11))
			st := randomStorage(t, r)
			c := newComparison(delayed, 2).onGPUs(gpus)
			jobs := metric(t, reg, "promwarp_gpu_jobs_total")
			for range n {
				ask := question{start: int64(r.IntN(3600)) * 1000}
				ask.query, ask.allowed = randomQuery(r)
				if r.IntN(2) == 0 {
					ask.query = randomLeaf(r)
				}
				ask.end, ask.step = ask.start+int64(r.IntN(1800))*1000, int64(1+r.IntN(90))*1000
				if r.IntN(4) == 0 {
					ask.end, ask.step = ask.start, 0
				}
				require.NoError(t, c.compare(t, st, ask))
			}
			// Prometheus's engine gives one or two of 40 000 questions another answer each time.
			require.LessOrEqual(t, c.undecided, n/1000)
			jobs = metric(t, reg, "promwarp_gpu_jobs_total") - jobs
			t.Logf("%d queries: %v leaves on the GPU; left to the cores, all told: %v", n, jobs, declines(t, reg))
			require.Greater(t, jobs, 0.9*float64(n))
		})
	}
	require.Zero(t, metric(t, reg, "promwarp_gpu_faults_total"))
}

// randomLeaf writes a query with leaves for a GPU in one of the places that they
// can be in.
func randomLeaf(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	// Only without topk, timestamp, and maps other than the sign does Prometheus's
	// engine always yield one order, which decides among equals.
	leafOf := func(anyOrder bool) string {
		sel := pick("reqs_total", "errs_total", "temp", "odd", "build_info", `{__name__=~"reqs_total|errs_total"}`, `{job="j1"}`, "lat_bucket")
		mod := pick("", "", "", " offset 3m", " offset -2m", " @ 1200", " @ end()")
		by := pick("", "by (job) ", "by (instance, job) ", "without (instance) ", "by (le, job) ", "by (__name__) ")
		kind, maps := r.IntN(8), 0
		for anyOrder && kind != 2 && r.IntN(3) == 0 {
			maps++
		}
		exactness := plan.BitIdentical
		if anyOrder && maps == 0 && r.IntN(8) == 0 {
			exactness = plan.Compensated // a comparison or a rounding would make a little much
		}
		in := anyWindow(r, exactness, sel+pick("[1m]", "[5m]", "[17m]", "[90s]", "[15s]")+mod)
		switch {
		case r.IntN(3) == 0:
			in = sel + mod
		case anyOrder && kind != 2 && r.IntN(12) == 0:
			in = "timestamp(" + sel + mod + ")"
		}
		if kind == 2 && r.IntN(3) == 0 {
			in = "-(" + in + ")"
		}
		for range maps {
			in = randomDeviceMap(r, in)
		}
		switch kind {
		case 0:
			return in
		case 1:
			return "quantile " + by + "(" + pick("0", "0.5", "0.9", "1") + ", " + in + ")"
		case 2:
			if !anyOrder {
				break
			}
			return pick("topk ", "bottomk ", "limitk ") + by + "(" + pick("1", "2", "3", "7", "100", "0", "2.5") + ", " + in + ")"
		}
		return pick("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar") + " " + by + "(" + in + ")"
	}
	leaf := func() string { return leafOf(true) }
	switch r.IntN(10) {
	case 0:
		return "topk(2, " + leafOf(false) + ")"
	case 1:
		return leaf() + pick(" / ", " + ", " > ", " and ", " or ", " unless ") + pick("", "on (job) ", "ignoring (instance) ") + leaf()
	case 2:
		return "histogram_quantile(0.9, sum by (le" + pick("", ", job") + ") (rate(lat_bucket" + pick("[1m]", "[5m]") + ")))"
	case 3:
		return pick("max_over_time", "sum_over_time", "rate") + "((" + leaf() + ")" + pick("[10m:1m]", "[7m:]", "[3m:17s]") + pick("", " offset 4m") + ")"
	case 4:
		return pick("max", "sum", "count", "group") + "(" + leaf() + ")"
	case 5:
		return "sum by (x) (label_replace(" + leaf() + `, "x", "$1", "job", "(.*)"))`
	case 6:
		return pick("abs", "-", "sort", "absent", "2 * ") + "(" + leaf() + ")"
	case 7:
		return "count_values by (job) (\"v\", " + leafOf(false) + ")"
	default:
		return leaf()
	}
}

// randomDeviceMap applies a map, mostly one that GPUs compute.
func randomDeviceMap(r *rand.Rand, in string) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	number := func() string { return pick("0", "2", "-3", "0.1", "1000", "Inf", "-Inf", "NaN", "-0") }
	switch r.IntN(6) {
	case 0:
		return "(" + in + pick(" + ", " - ", " * ", " / ") + number() + ")"
	case 1:
		return "(" + number() + pick(" + ", " - ", " * ", " / ", " > ", " == bool ", " <= bool ") + in + ")"
	case 2:
		return "(" + in + pick(" > ", " < ", " >= ", " <= ", " == ", " != ", " > bool ", " != bool ") + number() + ")"
	case 3:
		return pick("clamp_min", "clamp_max", "round") + "(" + in + ", " + number() + ")"
	case 4:
		return "clamp(" + in + ", " + pick("-1", "-Inf", "-0") + ", " + pick("0", "7", "Inf") + ")"
	default:
		return pick("abs", "ceil", "floor", "sgn", "sqrt", "-", "deg", "rad", "round", "exp") + "(" + in + ")"
	}
}
