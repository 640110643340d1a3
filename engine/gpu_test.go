package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
)

// someConstants are not measured, so that tests start at once.
var someConstants = placement.Constants{
	Cores:  placement.Costs{Sample: 10},
	Device: placement.Costs{Fixed: time.Millisecond, Sample: 0.1},
	Link:   10e9,
}

// testGPUs has the GPUs of the driver for tests, closed with the
// test, and the registry of its metrics.
func testGPUs(t testing.TB, change ...func(*placement.Options)) (*placement.Placer, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	o := placement.Options{
		Options:   device.Options{Require: true, MemoryFraction: 0.05, Library: cudatest.Library(t), Registerer: reg},
		Constants: &someConstants,
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
	require.Greater(t, jobs, 11700.0)
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

// TestGPUChoice: small queries stay on the cores, and what the GPU is expected to be
// faster at goes there; both are told, with the estimates and the time it took.
func TestGPUChoice(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	start, end := time.UnixMilli(600_000), time.UnixMilli(3_000_000)
	const qs = "topk(2, sum by (job) (rate(reqs_total[5m]))) + 1"
	slowCores := someConstants
	slowCores.Cores.Sample = 1e9
	for _, c := range []struct {
		change   func(*placement.Options)
		mode     Mode
		executor string
		reason   string
	}{
		{func(*placement.Options) {}, Auto, plan.OnCPU, "the cores are expected to be faster: "},
		{func(*placement.Options) {}, CPU, plan.OnCPU, ""},
		{func(*placement.Options) {}, GPU, plan.OnGPU, ""},
		{func(o *placement.Options) { o.Constants = &slowCores }, Auto, plan.OnGPU, ""},
		{func(o *placement.Options) { o.Constants = &slowCores }, CPU, plan.OnCPU, ""},
	} {
		gpus, reg := testGPUs(t, c.change)
		e := New(Options{Prometheus: plainOpts(), GPUs: gpus})
		x, err := e.Explain(t.Context(), Request{Mode: c.mode, Strict: true, Storage: st, Query: qs, Start: start, End: end, Step: time.Minute}, true)
		require.NoError(t, err)
		leaf := find(x.Root, "sum by (job) (rate(reqs_total[5m]))")
		require.Equal(t, c.executor, leaf.Executor)
		require.Contains(t, leaf.Reason, c.reason)
		require.Equal(t, c.executor, leaf.Children[0].Executor)
		require.Equal(t, plan.OnCPU, x.Root.Executor)
		if c.mode == CPU {
			require.Nil(t, leaf.Choice)
			continue
		}
		require.Positive(t, leaf.Choice.CPU)
		require.Positive(t, leaf.Choice.GPU)
		require.Positive(t, leaf.Choice.Took)
		require.Contains(t, x.Tree(), "on the cores, ")
		if c.executor == plan.OnCPU {
			require.Equal(t, map[string]float64{"the cores are expected to be faster": 1}, declines(t, reg))
			require.Positive(t, x.Root.Work.Samples)
			continue
		}
		require.Empty(t, declines(t, reg))
		require.Equal(t, 0, *leaf.Choice.Device)
		require.Positive(t, leaf.Choice.Stages.Batches)
		require.Contains(t, x.Tree(), "[GPU 0: 1 batches, ")
		require.Zero(t, x.Root.Work.Samples, "the cores decode nothing")
		require.Positive(t, x.Root.Work.Device.Samples)
		require.Equal(t, float64(x.Root.Work.Device.Samples), metric(t, reg, "promwarp_gpu_samples_decoded_total"))
		require.Positive(t, metric(t, reg, "promwarp_gpu_seconds_total"))
	}
}

// find returns the decision on an expression.
func find(root *plan.Decision, expr string) (found *plan.Decision) {
	root.Walk(func(d *plan.Decision) {
		if d.Expr == expr {
			found = d
		}
	})
	return found
}

// TestGPUForeseen: a query that is not run says of each leaf who may evaluate it.
func TestGPUForeseen(t *testing.T) {
	gpus, _ := testGPUs(t)
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	at := time.UnixMilli(600_000)
	for _, c := range []struct {
		e          *Engine
		mode       Mode
		expr, want string
	}{
		{New(Options{Prometheus: plainOpts(), GPUs: gpus}), Auto, "sum(reqs_total)", reasonForesee},
		{New(Options{Prometheus: plainOpts(), GPUs: gpus}), GPU, "sum(reqs_total)", ""},
		{New(Options{Prometheus: plainOpts(), GPUs: gpus}), Auto, "rate(reqs_total[5m])", reasonForesee},
		{New(Options{Prometheus: plainOpts()}), GPU, "sum(reqs_total)", reasonNoGPUs},
		{New(Options{Prometheus: plainOpts()}), Auto, "sum(reqs_total)", ""},
	} {
		x, err := c.e.Explain(t.Context(), Request{Mode: c.mode, Storage: st, Query: c.expr, Start: at, End: at}, false)
		require.NoError(t, err)
		require.Equal(t, c.want, x.Root.Reason, "%s %s", c.mode, c.expr)
	}
}

// TestGPUForced: what a forced GPU could not take is a warning, or with strict an
// error.
func TestGPUForced(t *testing.T) {
	gpus, _ := testGPUs(t)
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	with, without := New(Options{Prometheus: plainOpts(), GPUs: gpus}), New(Options{Prometheus: plainOpts()})
	for _, c := range []struct {
		e    *Engine
		qs   string
		want []string
	}{
		{with, `histogram_quantile(0.9, sum by (le) (rate(lat_bucket{job="j0"}[5m])))`, nil},
		{with, "sum(temp) / count(temp)", nil},
		{with, "rate(reqs_total[5m]) * 2", nil},
		{with, "sum(temp) + quantile(0.5, temp) + count_values(\"v\", odd)", nil},
		{with, "topk(2, exp(temp)) + on (job, instance) stdvar(deriv(temp[5m]))", nil},
		{with, "max(abs(temp)) + sum(timestamp(temp)) + absent_over_time(odd[5m])", nil},
		{New(Options{Prometheus: plainOpts(), GPUs: gpus, Exact: plan.Bits}), "max(avg_over_time(temp[30m])) + sum(temp)",
			[]string{"avg_over_time(temp[30m]): the function avg_over_time is not on the GPU: exact=bits has the cores make Prometheus's operations in their order"}},
		{with, "max(mad_over_time(temp[30m])) + count(temp)", []string{"max(mad_over_time(temp[30m])): windows of more than 64 samples are not sorted on the GPU yet"}},
		{with, "timestamp(temp @ 600.000 offset 5m)", []string{"timestamp(temp @ 600.000 offset 5m): timestamp of a selector with @ and an offset"}},
		{without, "sum(temp)", []string{"sum(temp): " + reasonNoGPUs}},
	} {
		res := ranged(t, as{c.e, Request{Mode: GPU}}, t.Context(), st, c.qs)
		require.NoError(t, res.Err)
		warnings, _ := res.Warnings.AsStrings(c.qs, 0, 0)
		require.Len(t, warnings, len(c.want), "%s: %s", c.qs, warnings)
		for _, w := range c.want {
			require.Contains(t, strings.Join(warnings, "\n"), "not evaluated on a GPU: "+w)
		}
		res = ranged(t, as{c.e, Request{Mode: GPU, Strict: true}}, t.Context(), st, c.qs)
		if len(c.want) == 0 {
			require.NoError(t, res.Err)
			continue
		}
		require.ErrorAs(t, res.Err, new(*NotTakenError))
		require.ErrorContains(t, res.Err, "executor=gpu with strict=true: parts of the query are not on a GPU: ")
	}
}

// TestGPULimits: the limits on samples and on memory strike on the GPU, too.
func TestGPULimits(t *testing.T) {
	gpus, reg := testGPUs(t)
	r := rand.New(rand.NewPCG(21, 22))
	st := randomStorage(t, r)
	struck := 0
	for _, qs := range []string{
		"sum by (job) (rate(reqs_total[5m]))", "max(sum by (job) (temp))", "sum by (job) (temp) * 2", "sum(temp) or vector(1)",
		"histogram_quantile(0.9, sum by (le, job) (rate(lat_bucket[5m])))", "sum(temp) / count(max_over_time(temp[5m]))",
		"max_over_time(sum(rate(reqs_total[5m]))[10m:1m])", "avg(increase(reqs_total[40m]))",
		"rate(reqs_total[5m]) * 2 > 1", "sum by (job) (abs(temp) * 2 > 1)", "topk by (job) (2, temp)", "quantile(0.5, -temp)",
		"topk(3, max_over_time(temp[10m]) != 0)", "count(timestamp(temp))",
	} {
		for limit := 1; limit < 1300; limit += 1 + r.IntN(100) {
			if strikes(t, st, qs, limit, Options{Workers: 2, GPUs: gpus}) {
				struck++
			}
		}
		least := int64(64) // bytes that the query ran with
		for ; ; least += least / 8 {
			if ranged(t, as{New(Options{Prometheus: plainOpts(), MaxMemory: least, GPUs: gpus}), Request{Mode: GPU}}, t.Context(), st, qs).Err == nil {
				break
			}
		}
		require.Greater(t, least, int64(81*16), qs)
	}
	require.Greater(t, struck, 30)
	require.Zero(t, metric(t, reg, "promwarp_gpu_faults_total"))
	require.Greater(t, metric(t, reg, "promwarp_gpu_jobs_total"), 100.0)
}

// during is a storage that calls f when a query first reads from it.
type during struct {
	storage.Storage
	f func()
}

func (d during) Querier(mint, maxt int64) (storage.Querier, error) {
	d.f()
	return d.Storage.Querier(mint, maxt)
}

func (d during) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	d.f()
	return d.Storage.ChunkQuerier(mint, maxt)
}

// TestGPUChoiceUnderLoad: a leaf is expected to take the cores longer while other queries are being
// evaluated, with which it shares them.
func TestGPUChoiceUnderLoad(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	start, end := time.UnixMilli(600_000), time.UnixMilli(3_000_000)
	const qs = "sum by (job) (rate(reqs_total[5m]))"
	slow := someConstants
	slow.Cores.Sample = 1e6
	estimate := func(e *Engine, st storage.Storage) float64 {
		x, err := e.Explain(t.Context(), Request{Storage: st, Query: qs, Start: start, End: end, Step: time.Minute}, true)
		require.NoError(t, err)
		return float64(find(x.Root, qs).Choice.CPU)
	}
	fresh := func() *Engine {
		gpus, _ := testGPUs(t, func(o *placement.Options) { o.Constants = &slow })
		return New(Options{Prometheus: plainOpts(), GPUs: gpus})
	}
	alone, beside := estimate(fresh(), st), 0.0
	e := fresh()
	estimate(e, during{st, sync.OnceFunc(func() { beside = estimate(e, st) })})
	require.InEpsilon(t, 2*alone, beside, 0.01)
}
