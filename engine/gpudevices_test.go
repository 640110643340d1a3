//go:build unix

package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/planner/placement"
)

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
	var log gpuLog
	gpus, reg := testGPUs(t, log.to)
	e := New(Options{Prometheus: plainOpts(), GPUs: gpus})
	requireAnswers(t, e, st)
	before := jobsOf(t, reg)
	leaves := float64(2 * len(deviceQueries()))
	require.Equal(t, leaves, before["0"]+before["1"], "all leaves are on a GPU")
	require.Positive(t, before["0"])
	require.Positive(t, before["1"])

	h.Configure("cuLaunchKernel:3=719")
	requireAnswers(t, e, st)
	require.Equal(t, 1, log.count("a GPU is lost to this process"))
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
	require.Eventually(t, usable(firstReg), 5*time.Second, time.Millisecond)
	second, secondReg := testGPUs(t, part(0.8))
	require.Eventually(t, usable(secondReg), 5*time.Second, time.Millisecond, "it takes what is there")
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
	require.Eventually(t, usable(firstReg), 5*time.Second, time.Millisecond)
	second, secondReg = testGPUs(t, part(0.8))
	require.Eventually(t, usable(secondReg), 5*time.Second, time.Millisecond)
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
