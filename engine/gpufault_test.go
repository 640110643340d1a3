//go:build unix

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

const faultQuery = "sum by (job) (rate(reqs_total[5m])) / on (job) max by (job) (max_over_time(temp[10m]))"

// TestGPUFaults: whatever fails on the device, each answer is the same; the failure
// is logged once and counted, and the device is used again when it is time to. Until
// then it is left alone.
func TestGPUFaults(t *testing.T) {
	h := cudatest.Control(t)
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	want := summary(ranged(t, promql.NewEngine(plainOpts()), t.Context(), st, faultQuery), faultQuery)
	for _, retry := range []time.Duration{1, time.Hour} {
		var log testlog.Log
		gpus, reg := testGPUs(t, func(o *placement.Options) {
			o.Logger, o.Retry = slog.New(slog.NewTextHandler(&log, nil)), retry
		})
		e := New(Options{Prometheus: plainOpts(), GPUs: gpus})
		ask := func() {
			require.Equal(t, want, summary(ranged(t, inMode{e, GPU}, t.Context(), st, faultQuery), faultQuery))
		}
		jobs := func() float64 { return metric(t, reg, "promwarp_gpu_jobs_total") }
		faults := 0
		for _, call := range []string{"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuStreamWaitEvent", "cuMemsetD8Async", "cuEventRecord"} {
			for nth := 1; nth <= 2 && (retry == 1 || faults == 0); nth++ {
				faults++
				h.Configure(fmt.Sprintf("%s:%d=999", call, nth))
				ask()
				require.Equal(t, float64(faults), metric(t, reg, "promwarp_gpu_faults_total"), "%s %d", call, nth)
				require.Equal(t, faults, log.Count("a GPU failed: the cores evaluate its queries"))
				require.Equal(t, nth, log.Count(call+": CUDA_ERROR_UNKNOWN"))
				before, declined := jobs(), declines(t, reg)["the GPU failed"]
				ask()
				if retry == time.Hour {
					require.Equal(t, before, jobs(), "it is left alone")
					require.Equal(t, declined+2, declines(t, reg)["the GPU failed"])
					require.Zero(t, metric(t, reg, "promwarp_gpu_usable"))
					continue
				}
				require.Equal(t, before+2, jobs())
				require.Equal(t, 1.0, metric(t, reg, "promwarp_gpu_usable"))
				require.Equal(t, faults, log.Count("a GPU failed"))
				require.Equal(t, faults, log.Count("a GPU works again"))
			}
		}
		gpus.Close()
		require.Zero(t, h.Held())
	}
}

// TestGPUStarts: queries do not wait for a device that is starting or cannot be
// opened at first.
func TestGPUStarts(t *testing.T) {
	h := cudatest.Control(t)
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	var log testlog.Log
	for nth := 1; nth <= 3; nth++ {
		h.Reset()
		h.Configure(fmt.Sprintf("cuMemHostAlloc:%d=2", nth))
		gpus, reg := testGPUs(t, func(o *placement.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			o.Require, o.Retry = false, 50*time.Millisecond
		})
		e := New(Options{Prometheus: plainOpts(), GPUs: gpus})
		require.Equal(t, 0.0, metric(t, reg, "promwarp_gpu_usable"))
		require.NoError(t, ranged(t, e, t.Context(), st, faultQuery).Err)
		require.Eventually(t, func() bool { return metric(t, reg, "promwarp_gpu_usable") == 1 }, time.Minute, time.Millisecond)
		require.NoError(t, ranged(t, as{e, Request{Mode: GPU, Strict: true}}, t.Context(), st, faultQuery).Err)
		require.Equal(t, nth, log.Count("a GPU cannot be used at present"))
		require.Equal(t, nth, log.Count("a GPU is ready"))
		gpus.Close()
		require.Zero(t, h.Held())
	}
	h.Configure("cuMemAlloc_v2:1=2")
	_, err := placement.Open(placement.Options{
		Options: device.Options{Require: true, MemoryFraction: 0.1, Library: cudatest.Library(t)}, Constants: &someConstants,
	})
	require.ErrorContains(t, err, "CUDA_ERROR_OUT_OF_MEMORY")
	require.Zero(t, h.Held())
}

// TestGPUConcurrently: queries that come at once share the device and get the same
// answers; some are cancelled, which is no failure of the device.
func TestGPUConcurrently(t *testing.T) {
	gpus, reg := testGPUs(t)
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	e := New(Options{Prometheus: plainOpts(), GPUs: gpus, Workers: 2})
	queries := []string{
		faultQuery, "topk(1, sum by (job) (rate(reqs_total[5m])))", "avg by (job) (temp)",
		"histogram_quantile(0.9, sum by (le) (rate(lat_bucket[5m])))", "max(sum by (job) (temp))",
	}
	var want []string
	for _, qs := range queries {
		want = append(want, summary(ranged(t, promql.NewEngine(plainOpts()), t.Context(), st, qs), qs))
	}
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := range 20 {
				qs := queries[(k+i)%len(queries)]
				ctx, cancel := context.WithCancel(context.Background())
				if i%4 == 3 {
					time.AfterFunc(time.Duration(k*100)*time.Microsecond, cancel)
				}
				res := ranged(t, as{e, Request{Mode: GPU, Strict: true}}, ctx, st, qs)
				cancel()
				if res.Err != nil && i%4 == 3 {
					continue
				}
				if got := summary(res, qs); got != want[(k+i)%len(queries)] {
					t.Errorf("%s: %s", qs, got)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, metric(t, reg, "promwarp_gpu_faults_total"))
	require.Greater(t, metric(t, reg, "promwarp_gpu_jobs_total"), 120.0)
}

// TestGPUCancelSoon: a query that is cancelled, or whose time is up, ends with
// Prometheus's error while the device works for it or for another, and the device
// goes on.
func TestGPUCancelSoon(t *testing.T) {
	cudatest.Control(t) // a GPU is done before the deadline
	gpus, reg := testGPUs(t)
	sel := heavy(t, 3000, 240)
	q := queryable{select_: func() (*selection.Selection, error) { return sel, nil }}
	e := New(Options{Prometheus: plainOpts(), GPUs: gpus, Workers: 2})
	const qs = "sum by (g) (rate(m_total[5m]))"
	var wg sync.WaitGroup
	ended := make([]error, 2)
	for k := range ended {
		wg.Go(func() {
			query, err := e.NewQuery(context.Background(), Request{Storage: q, Query: qs, Start: time.Unix(0, 0), End: time.Unix(3600, 0), Step: time.Second, Mode: GPU})
			if err != nil {
				ended[k] = err
				return
			}
			defer query.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			defer cancel()
			ended[k] = query.Exec(ctx).Err
		})
	}
	wg.Wait()
	for _, err := range ended {
		require.ErrorAs(t, err, new(promql.ErrQueryTimeout))
	}
	require.Zero(t, metric(t, reg, "promwarp_gpu_faults_total"))
	res := ranged(t, as{e, Request{Mode: GPU, Strict: true}}, t.Context(), q, qs)
	require.NoError(t, res.Err)
	require.Equal(t, 1.0, metric(t, reg, "promwarp_gpu_jobs_total"))
}

// deviceQueries have leaves of many selectors.
func deviceQueries() (out []string) {
	for job := range 3 {
		for inst := range 4 {
			out = append(out, fmt.Sprintf(`sum by (job) (rate(reqs_total{job="j%d",instance="i%d"}[5m])) + on (job) max by (job) (max_over_time(temp{job="j%[1]d"}[10m]))`, job, inst))
		}
	}
	return out
}

// requireAnswers asks for all queries, several at once, and requires them to be
// answered as by Prometheus's engine.
func requireAnswers(t *testing.T, e *Engine, st storage.Storage) {
	t.Helper()
	stock := promql.NewEngine(plainOpts())
	var wg sync.WaitGroup
	for _, qs := range deviceQueries() {
		want := summary(ranged(t, stock, t.Context(), st, qs), qs)
		wg.Go(func() {
			if got := summary(ranged(t, inMode{e, GPU}, t.Context(), st, qs), qs); got != want {
				t.Errorf("%s\n%s\ninstead of\n%s", qs, got, want)
			}
		})
	}
	wg.Wait()
}

// jobsOf is the number of leaves that each device has evaluated.
func jobsOf(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	return countersOf(t, reg, "promwarp_gpu_jobs_total")
}

// TestGPUDevices: two devices share the leaves; when one is lost, even in the midst
// of queries, the other evaluates on and each answer is the same.
func TestGPUDevices(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2")
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	var log testlog.Log
	gpus, reg := testGPUs(t, func(o *placement.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	e := New(Options{Prometheus: plainOpts(), GPUs: gpus})
	requireAnswers(t, e, st)
	before := jobsOf(t, reg)
	leaves := float64(2 * len(deviceQueries()))
	require.Equal(t, leaves, before["0"]+before["1"], "all leaves are on a GPU")
	require.Positive(t, before["0"])
	require.Positive(t, before["1"])

	h.Configure("cuLaunchKernel:3=719")
	requireAnswers(t, e, st)
	require.Equal(t, 1, log.Count("a GPU is lost to this process"))
	require.Equal(t, 1.0, metric(t, reg, "promwarp_gpu_usable"))
	middle := jobsOf(t, reg)
	requireAnswers(t, e, st)
	after := jobsOf(t, reg)
	lost, other := "0", "1"
	if after["0"] > middle["0"] {
		lost, other = "1", "0"
	}
	require.Equal(t, middle[lost], after[lost])
	require.Equal(t, middle[other]+leaves, after[other])
}

// TestGPUSeveral: random queries have the same bits on one GPU and on several that compute leaves together,
// and while one of them is lost. PROMWARP_RANDOM sets the number of queries.
func TestGPUSeveral(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 30)
	h := cudatest.Control(t)
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	constants := someConstants
	constants.Device.Fixed, constants.Device.Sample = 0, 100 // everything is worth being spread
	var want []string
	alone := 0.0 // leaves on one GPU, which several compute in parts
	for _, devices := range []int{1, 2, 3, 8} {
		h.Reset()
		h.Configure(fmt.Sprintf("devices=%d", devices))
		gpus, reg := testGPUs(t, func(o *placement.Options) { o.Constants, o.Retry = &constants, time.Hour })
		e := New(Options{Prometheus: plainOpts(), GPUs: gpus})
		r := rand.New(rand.NewPCG(3, 5))
		for k := range n {
			if devices > 1 && k == n/2 {
				h.Configure("cuLaunchKernel:9=719")
			}
			qs := randomLeaf(r)
			got := summary(ranged(t, inMode{e, GPU}, t.Context(), st, qs), qs)
			if devices == 1 {
				want = append(want, got)
			}
			require.Equal(t, want[k], got, "%d devices: %s", devices, qs)
		}
		jobs := metric(t, reg, "promwarp_gpu_jobs_total")
		if devices == 1 {
			alone = jobs
		}
		require.GreaterOrEqual(t, jobs, alone*(1+float64(devices-1)/4))
		require.Len(t, jobsOf(t, reg), devices)
		require.Equal(t, float64(max(1, devices-1)), metric(t, reg, "promwarp_gpu_usable"))
		if devices > 1 {
			require.NotContains(t, declines(t, reg), "the GPU failed")
		}
		gpus.Close()
	}
}

// TestGPUShared: two users of one device, as two processes are, each take a part of
// what is free. One for which there is not enough says so of each leaf, and leaves it
// to the cores.
func TestGPUShared(t *testing.T) {
	h := cudatest.Control(t)
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	part := func(fraction float64) func(*placement.Options) {
		return func(o *placement.Options) {
			o.MemoryFraction, o.Require, o.Retry = fraction, false, 20*time.Millisecond
		}
	}
	usable := func(reg *prometheus.Registry) func() bool {
		return func() bool { return metric(t, reg, "promwarp_gpu_usable") == 1 }
	}

	h.Configure("memory=256000000")
	first, firstReg := testGPUs(t, part(0.8))
	require.Eventually(t, usable(firstReg), time.Minute, time.Millisecond)
	second, secondReg := testGPUs(t, part(0.8))
	require.Eventually(t, usable(secondReg), time.Minute, time.Millisecond, "it takes what is there")
	engines := []*Engine{New(Options{Prometheus: plainOpts(), GPUs: first}), New(Options{Prometheus: plainOpts(), GPUs: second})}
	for _, e := range engines {
		requireAnswers(t, e, st)
	}
	leaves := float64(2 * len(deviceQueries()))
	require.Equal(t, leaves, metric(t, firstReg, "promwarp_gpu_jobs_total"))
	require.Equal(t, leaves, metric(t, secondReg, "promwarp_gpu_jobs_total"))
	second.Close()

	// Nearly all is taken.
	first.Close()
	first, firstReg = testGPUs(t, part(0.9999))
	require.Eventually(t, usable(firstReg), time.Minute, time.Millisecond)
	second, secondReg = testGPUs(t, part(0.8))
	require.Eventually(t, usable(secondReg), time.Minute, time.Millisecond)
	e := New(Options{Prometheus: plainOpts(), GPUs: second})
	requireAnswers(t, e, st)
	require.Zero(t, metric(t, secondReg, "promwarp_gpu_jobs_total"))
	little := 0.0
	for reason, n := range declines(t, secondReg) {
		require.Contains(t, reason, "more memory than the executor has on the device")
		little += n
	}
	require.GreaterOrEqual(t, little, leaves, "each is said, an aggregation's window for itself")
	require.Zero(t, metric(t, secondReg, "promwarp_gpu_faults_total"), "nothing failed")
	second.Close()
	first.Close()
	require.Zero(t, h.Held())
}
