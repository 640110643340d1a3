package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

var (
	faultOptions = Options{Memory: 8 << 20, Staging: 200 << 10}
	faultGrid    = plan.Grid{Start: 1_000_000, Interval: 60_000, Steps: 40}
)

// TestEveryFault lets each call that a job makes fail in turn: the error names it,
// the next job's answer is right, and closing gives everything back.
func TestEveryFault(t *testing.T) {
	h := cudatest.Control(t)
	sel := randomSelection(t, rand.New(rand.NewPCG(51, 52)), 300)
	job := jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"job"}, false), faultGrid, sel)
	want, err := cpuexec.New(cpuexec.Options{}).Run(t.Context(), job)
	require.NoError(t, err)
	calls := map[string]int{}
	for _, name := range []string{
		"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuModuleLoadDataEx", "cuModuleGetFunction",
		"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuStreamSynchronize", "cuStreamWaitEvent",
		"cuEventRecord", "cuEventSynchronize", "cuLaunchKernel", "cuMemGetInfo_v2", "cuMemFree_v2", "cuMemFreeHost",
	} {
		calls[name] = 0
	}
	whole := func(o Options) (runErr, err error) {
		dev, err := cudatest.Open(t).Device(0)
		require.NoError(t, err)
		x, err := New(dev, cpuexec.New(cpuexec.Options{}), o)
		if err == nil {
			var got *plan.Matrix
			if runErr = x.Keep(t.Context(), sel); runErr == nil {
				x.Forget(sel)
				got, runErr = x.Run(t.Context(), job)
			}
			if runErr != nil {
				got, err = x.Run(t.Context(), job) // as if nothing had happened
			}
			if err == nil {
				same(t, want, got, true, "after a fault")
			}
			err = errors.Join(err, x.Close())
		}
		require.NoError(t, dev.Close())
		return runErr, err
	}
	runErr, err := whole(faultOptions)
	require.NoError(t, errors.Join(runErr, err))
	require.Zero(t, h.Held())
	for name := range calls {
		calls[name] = h.Calls(name)
	}
	require.Greater(t, calls["cuLaunchKernel"], 10, "several batches")
	for name, n := range calls {
		for nth := 1; nth <= n; nth += max(1, n/20) {
			h.Reset()
			h.Configure(fmt.Sprintf("%s:%d=999", name, nth))
			o := faultOptions
			runErr, err := whole(o)
			require.ErrorContains(t, errors.Join(runErr, err), name+": CUDA_ERROR_UNKNOWN (999)", "call %d", nth)
			if runErr != nil && name != "cuMemFree_v2" {
				require.NoError(t, err, "%s call %d: the next job", name, nth)
			}
			require.Zero(t, h.Held(), "%s call %d", name, nth)
		}
	}
}

// TestLost: after a kernel went wrong every job fails, at once.
func TestLost(t *testing.T) {
	h := cudatest.Control(t)
	sel := randomSelection(t, rand.New(rand.NewPCG(53, 54)), 50)
	job := jobOver(aggregation("max", "last", 300_000, 0, nil, nil, false), faultGrid, sel)
	dev, err := cudatest.Open(t).Device(0)
	require.NoError(t, err)
	x, err := New(dev, cpuexec.New(cpuexec.Options{}), faultOptions)
	require.NoError(t, err)
	h.Configure("cuLaunchKernel:2=719")
	_, err = x.Run(t.Context(), job)
	require.True(t, cuda.Lost(err), "%v", err)
	launches := h.Calls("cuLaunchKernel")
	_, err = x.Run(t.Context(), job)
	require.True(t, cuda.Lost(err), "%v", err)
	require.ErrorContains(t, err, "the GPU was lost in an earlier job")
	require.Equal(t, launches, h.Calls("cuLaunchKernel"))
	_ = x.Close()
	require.NoError(t, dev.Close())
}

// TestTooLittleMemory: what does not fit is unsuited, or an error when the
// executor is made.
func TestTooLittleMemory(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("memory=5000000")
	sel := randomSelection(t, rand.New(rand.NewPCG(55, 56)), 200)
	dev := cudatest.Device(t)
	cpu := cpuexec.New(cpuexec.Options{})
	_, err := New(dev, cpu, Options{Memory: 6_000_000})
	require.ErrorIs(t, err, cuda.OutOfMemory)
	for memory, reason := range map[uint64]string{
		100_000:   "its groups, at every step, need more memory than the executor has on the device",
		1_000_000: "32 series alone need more memory than the executor has on the device",
	} {
		x, err := New(dev, cpu, Options{Memory: memory})
		require.NoError(t, err)
		_, err = x.Run(t.Context(), jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"instance"}, false), plan.Grid{Start: 0, Interval: 60_000, Steps: 50}, sel))
		var u *Unsuited
		require.ErrorAs(t, err, &u)
		require.Equal(t, reason, u.Reason)
		require.ErrorIs(t, x.Keep(t.Context(), bigSelection(t)), resident.ErrNoRoom)
		require.NoError(t, x.Close())
	}
}

// bigSelection holds some MB of chunks.
func bigSelection(t *testing.T) *selection.Selection {
	b := selection.NewBuilder(0)
	r := rand.New(rand.NewPCG(1, 9))
	ts, vs := make([]int64, 10_000), make([]float64, 10_000)
	for i := range ts {
		ts[i], vs[i] = int64(i+1)*1000, r.Float64()
	}
	data := encode(t, ts, vs)
	for i := range 100 {
		b.Series(labels.FromStrings("i", fmt.Sprintf("%03d", i)))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[len(ts)-1], data))
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// TestUnsuited: windows that are not on the GPU are told.
func TestUnsuited(t *testing.T) {
	x := executor(t, faultOptions)
	unknown := aggregation("sum", "rate", 60_000, 0, nil, nil, false)
	unknown.Input.(*plan.Window).Func = window.StartTimestamp
	sel := randomSelection(t, rand.New(rand.NewPCG(71, 72)), 40)
	_, err := x.Run(t.Context(), jobOver(unknown, faultGrid, sel))
	require.EqualError(t, err, "not on the GPU: the function start_timestamp is not on the GPU: kernels do not decode start timestamps")
	_, err = x.Run(t.Context(), jobOver(aggregation("sum", "mad_over_time", 3_600_000, 0, nil, nil, false), faultGrid, sel))
	require.EqualError(t, err, "not on the GPU: windows of more than 64 samples are not sorted on the GPU yet")
}

// TestCancelled: a query that ends stops between batches, with Prometheus's error.
func TestCancelled(t *testing.T) {
	sel := randomSelection(t, rand.New(rand.NewPCG(57, 58)), 300)
	x := executor(t, faultOptions)
	node := aggregation("sum", "rate", 300_000, 0, nil, nil, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := jobOver(node, faultGrid, sel)
	l, err := x.cpu.OpenLeaf(ctx, cancelled)
	require.NoError(t, err)
	workspace, err := x.Begin(ctx, &x.Large, &x.Large)
	require.NoError(t, err)
	stages := &pipeline.Stages{}
	cancel()
	_, err = x.compute(workspace, task{l: l, stages: stages})
	workspace.Leave()
	require.ErrorIs(t, err, promql.ErrQueryCanceled("expression evaluation"))
	require.Zero(t, stages.Batches, "a batch was enqueued")
	small, err := x.Begin(t.Context(), &x.Small, &x.Small)
	require.NoError(t, err)
	_, err = x.Begin(ctx, &x.Small, &x.Small)
	small.Leave()
	require.ErrorIs(t, err, context.Canceled, "one that waits for another gives up, too")
	want, err := x.cpu.Run(t.Context(), jobOver(node, faultGrid, sel))
	require.NoError(t, err)
	got, err := x.Run(t.Context(), jobOver(node, faultGrid, sel))
	require.NoError(t, err)
	same(t, want, got, true, "after one that was cancelled")
}

// TestCorruptChunk: the error names the series, and the selection is discarded.
func TestCorruptChunk(t *testing.T) {
	x := executor(t, faultOptions)
	r := rand.New(rand.NewPCG(59, 60))
	for _, bad := range []int{0, 31, 32, 250} {
		b := selection.NewBuilder(0)
		for i := range 300 {
			b.Series(labels.FromStrings("__name__", "m_total", "job", fmt.Sprint(i%3), "i", fmt.Sprintf("%03d", i)))
			for p := range 3 {
				ts, vs := make([]int64, 50), make([]float64, 50)
				for k := range ts {
					ts[k], vs[k] = int64(p*50+k)*15_000+1_000_000, r.Float64()
				}
				data := encode(t, ts, vs)
				if i == bad && p == 1 {
					data = data[:len(data)-20]
				}
				require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[49], data))
			}
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		discarded := false
		sel.SetDiscard(func() { discarded = true })
		for _, keep := range []bool{false, true} {
			if keep {
				require.NoError(t, x.Keep(t.Context(), sel))
			}
			discarded = false
			_, err = x.Run(t.Context(), jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"job"}, false), faultGrid, sel))
			var ce *selection.CorruptError
			require.ErrorAs(t, err, &ce)
			require.Equal(t, labels.FromStrings("__name__", "m_total", "job", fmt.Sprint(bad%3), "i", fmt.Sprintf("%03d", bad)), ce.Series)
			require.EqualValues(t, 50*15_000+1_000_000, ce.MinT)
			require.EqualError(t, ce.Err, "its bit stream ends before its last sample")
			require.True(t, discarded)
		}
		x.Forget(sel)
	}
}

// TestResident: answers over a selection that is kept on the device are the same.
func TestResident(t *testing.T) {
	x := executor(t, Options{Memory: 24 << 20, Staging: 1 << 20})
	r := rand.New(rand.NewPCG(61, 62))
	sel := randomSelection(t, r, 300)
	for _, f := range testFunctions {
		job := jobOver(aggregation("min", f, 300_000, 0, nil, []string{"instance"}, false), faultGrid, sel)
		want, err := x.Run(t.Context(), job)
		if err != nil {
			require.EqualError(t, err, mixedZeros)
			continue
		}
		require.NoError(t, x.Keep(t.Context(), sel))
		require.NoError(t, x.Keep(t.Context(), sel))
		got, err := x.Run(t.Context(), job)
		require.NoError(t, err)
		same(t, want, got, true, f)
		x.Forget(sel)
		x.Forget(sel)
	}
}
