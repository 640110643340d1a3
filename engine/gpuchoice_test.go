package engine

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
)

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
		x, err := e.Explain(WithMode(t.Context(), c.mode, true), st, nil, qs, start, end, time.Minute, true)
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
		x, err := c.e.Explain(WithMode(t.Context(), c.mode, false), st, nil, c.expr, at, at, 0, false)
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
		{with, "timestamp(temp @ 600.000 offset 5m)", []string{"timestamp(temp @ 600.000 offset 5m): timestamp of a selector with @ and an offset", "temp @ 600.000 offset 5m: "}},
		{without, "sum(temp)", []string{"sum(temp): " + reasonNoGPUs}},
	} {
		res := ranged(t, c.e, WithMode(t.Context(), GPU, false), st, c.qs)
		require.NoError(t, res.Err)
		warnings, _ := res.Warnings.AsStrings(c.qs, 0, 0)
		require.Len(t, warnings, len(c.want), "%s: %s", c.qs, warnings)
		for _, w := range c.want {
			require.Contains(t, strings.Join(warnings, "\n"), "not evaluated on a GPU: "+w)
		}
		res = ranged(t, c.e, WithMode(t.Context(), GPU, true), st, c.qs)
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
			opts := plainOpts()
			opts.MaxSamples = limit
			ours := New(Options{Prometheus: opts, Workers: 2, GPUs: gpus})
			opts.Reg = nil
			want := ranged(t, promql.NewEngine(opts), t.Context(), st, qs)
			got := ranged(t, ours, WithMode(t.Context(), GPU, false), st, qs)
			require.Equal(t, want.Err, got.Err, "%s limit %d", qs, limit)
			if want.Err != nil {
				struck++
			}
		}
		least := int64(64) // bytes that the query ran with
		for ; ; least += least / 8 {
			if ranged(t, New(Options{Prometheus: plainOpts(), MaxMemory: least, GPUs: gpus}), WithMode(t.Context(), GPU, false), st, qs).Err == nil {
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
		x, err := e.Explain(t.Context(), st, nil, qs, start, end, time.Minute, true)
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
