package device

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/kernels/ptx"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection/synthetic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of a Set of all devices of the host driver, and a log of it.
func options(t testing.TB) (Options, *testlog.Log) {
	l := &testlog.Log{}
	return Options{
		Require: true, MemoryFraction: 0.01, Library: cudatest.Library(t),
		Logger: slog.New(slog.NewTextHandler(l, nil)), Registerer: prometheus.NewRegistry(),
	}, l
}

// open opens a Set for a test.
func open(t testing.TB, o Options) []*Device {
	s, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	all, _ := s.Devices()
	return all
}

// leaf is that of a sum of rates over ten series.
func leaf(t testing.TB) *cpuexec.Leaf {
	return leafOf(t, func(w *plan.Window) plan.Node {
		return &plan.Aggregate{Func: aggregate.Named("sum"), Input: w, Origin: plan.Origin{Text: "sum(rate(m))"}}
	})
}

// leafOf is the leaf of a node over the rates of ten series.
func leafOf(t testing.TB, node func(*plan.Window) plan.Node) *cpuexec.Leaf {
	sel, err := synthetic.Counters("m", 10, synthetic.ChunkSamples)
	require.NoError(t, err)
	w := &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "m"}}, Func: window.Named("rate"), Width: 300_000, Origin: plan.Origin{Text: "rate(m)"}}
	l := cpuexec.LeafOf(node(w))
	l.Grid = plan.Grid{Start: synthetic.Start, Interval: 225_000, Steps: 8}
	l.Input = offload.Input{Selection: sel, Windows: 8, GroupOf: make([]int32, 10), Groups: 1, Ended: func() error { return nil }}
	l.From, l.To = w.Reads(l.Grid)
	return l
}

// TestEvaluate: a leaf is computed, counted, and makes the next one expect a wait while
// another one is under way.
func TestEvaluate(t *testing.T) {
	cudatest.Control(t)
	o, _ := options(t)
	d := open(t, o)[0]
	got, err := d.Evaluate(t.Context(), leaf(t), nil)
	require.NoError(t, err)
	require.Len(t, got.Results.Values, 8)
	require.Len(t, got.Results.Counts, 10)
	require.EqualValues(t, 10*synthetic.ChunkSamples, got.Work.Samples)
	require.Equal(t, 1.0, testutil.ToFloat64(d.set.metrics.jobs.WithLabelValues("0")))
	require.Equal(t, float64(got.Work.Samples), testutil.ToFloat64(d.set.metrics.samples))
	require.Zero(t, d.Wait())
	require.True(t, d.begin())
	require.Equal(t, (got.Stages.Total-got.Stages.Waited)*2/time.Duration(d.x.AtOnce()), d.Wait())
	require.EqualValues(t, 1, d.Leaves())
	d.end(nil, false)
}

// TestRetries: a device that fails again and again is tried ever less often, by one
// leaf at a time.
func TestRetries(t *testing.T) {
	h := cudatest.Control(t)
	o, l := options(t)
	o.Retry = 20 * time.Millisecond
	d := open(t, o)[0]
	for k := range 4 {
		h.Configure("cuLaunchKernel:1=999")
		require.Eventually(t, func() bool { return d.Unusable(time.Now()) == "" }, 5*time.Second, time.Millisecond)
		_, err := d.Evaluate(t.Context(), leaf(t), nil)
		require.ErrorContains(t, err, "CUDA_ERROR_UNKNOWN")
		require.Equal(t, 20*time.Millisecond<<(k+1), d.retry)
		require.Contains(t, d.Unusable(d.until.Add(-1)), "the GPU failed: cuLaunchKernel: CUDA_ERROR_UNKNOWN")
	}
	require.Equal(t, 1, l.Count("a GPU failed"), "only the first is logged")
	require.Equal(t, 4.0, testutil.ToFloat64(d.set.metrics.faults.WithLabelValues("0", "CUDA_ERROR_UNKNOWN")))
	require.Zero(t, testutil.ToFloat64(d.set.metrics.usable.WithLabelValues("0")))
	require.Empty(t, d.Unusable(d.until))
	require.True(t, d.begin())
	require.NotEmpty(t, d.Unusable(d.until), "one is trying already")
	_, err := d.Evaluate(t.Context(), leaf(t), nil)
	require.ErrorIs(t, err, errTrying)
	d.end(errors.New("not the device's"), false)
	require.Empty(t, d.Unusable(d.until), "the one that tried has said nothing")
	_, err = d.Evaluate(t.Context(), leaf(t), nil)
	require.NoError(t, err)
	require.Equal(t, 20*time.Millisecond, d.retry)
	require.Equal(t, 1, l.Count("a GPU works again"))
	require.Equal(t, 1.0, testutil.ToFloat64(d.set.metrics.usable.WithLabelValues("0")))
}

// TestQueryError: an error of the query says nothing about the device.
func TestQueryError(t *testing.T) {
	cudatest.Control(t)
	o, l := options(t)
	d := open(t, o)[0]
	window := leafOf(t, func(w *plan.Window) plan.Node { return w })
	failed := errors.New("too many samples")
	_, err := d.Evaluate(t.Context(), window, func(*offload.Rows) error { return failed })
	require.ErrorIs(t, err, failed)
	_, err = d.Evaluate(t.Context(), window, func(*offload.Rows) error { panic(failed) })
	require.ErrorIs(t, err, failed)
	require.Empty(t, d.Unusable(time.Now()))
	require.Zero(t, l.Count("a GPU failed"))
	require.Zero(t, d.Leaves())
}

// TestClosed: a Set that is closed holds nothing, and its devices are not usable.
func TestClosed(t *testing.T) {
	h := cudatest.Control(t)
	o, _ := options(t)
	s, err := Open(o)
	require.NoError(t, err)
	all, _ := s.Devices()
	s.Close()
	require.Zero(t, h.Held())
	require.Equal(t, "the GPU is closed", all[0].Unusable(time.Now()))
	_, err = all[0].Evaluate(t.Context(), leaf(t), nil)
	require.EqualError(t, err, "it is closed")
}

// opened calls f with each device that was opened.
func opened(f func() error) func(context.Context) func(*pipeline.Machine) error {
	return func(context.Context) func(*pipeline.Machine) error {
		return func(*pipeline.Machine) error { return f() }
	}
}

// TestOpened: the code that opens a Set sees each device before leaves go to it, and can say
// that it is of no use.
func TestOpened(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2")
	o, _ := options(t)
	seen := 0
	found := 0
	o.Found = func(context.Context) func(*pipeline.Machine) error {
		require.Zero(t, seen)
		found++
		return func(x *pipeline.Machine) error {
			require.Positive(t, x.Link)
			seen++
			return nil
		}
	}
	s, err := Open(o)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	require.Equal(t, 2, seen)
	s.Close()
	o.Registerer = nil
	o.Found = opened(func() error { return errors.New("too slow") })
	_, err = Open(o)
	require.EqualError(t, err, "measuring GPU 0: too slow")
	require.Zero(t, h.Held())
}

// TestFirstKernels: a device is used once the kernels are loaded that sums of rates need, a small part of
// what a driver compiles; the others are loaded then.
func TestFirstKernels(t *testing.T) {
	h := cudatest.Control(t)
	o, _ := options(t)
	const loads = "cuModuleLoadDataEx"
	o.Require = false
	begun, going := make(chan struct{}), make(chan struct{})
	o.Found = opened(func() error {
		require.Equal(t, len(launch.First), h.Calls(loads))
		close(begun)
		<-going
		return nil
	})
	s, err := Open(o)
	require.NoError(t, err)
	defer s.Close()
	<-begun
	close(going)
	require.Eventually(t, func() bool {
		all, _ := s.Devices()
		return len(all) == 1 && all[0].Unusable(time.Now()) == ""
	}, time.Minute, time.Millisecond)
	all, _ := s.Devices()
	require.Eventually(t, func() bool { return all[0].x.Kernels.Loaded(launch.Queries()...) }, time.Minute, time.Millisecond)
	require.GreaterOrEqual(t, h.Calls(loads), len(launch.Queries()))
	bytes := func(ks []launch.Kernel) (n int) {
		for _, k := range ks {
			n += len(ptx.Of(string(k)))
		}
		return n
	}
	require.Less(t, bytes(launch.First), bytes(launch.Queries())/10)
}

// TestReady: a leaf whose kernels are being compiled is not for the device, unless that takes less time
// than the device saves.
func TestReady(t *testing.T) {
	cudatest.Control(t)
	o, _ := options(t)
	d := open(t, o)[0]
	require.True(t, d.Ready(leaf(t), 0))
	loaded := d.x.Kernels
	d.x.Kernels = launch.New(d.x.Dev, launch.Queries()...)
	require.False(t, d.Ready(leaf(t), 0))
	require.True(t, d.Ready(leaf(t), time.Minute))
	d.x.Kernels = loaded
}

// TestMemoryBytes: no more of a device's memory is allocated than was said.
func TestMemoryBytes(t *testing.T) {
	for _, most := range []int64{32 << 20, 1 << 60} {
		cudatest.Control(t)
		o, l := options(t)
		o.MemoryFraction, o.MemoryBytes = 0.5, most
		open(t, o)
		require.Equal(t, most == 32<<20, l.Count(fmt.Sprintf("memory_bytes=%d ", most)) == 1, most)
		require.Equal(t, 1, l.Count("a GPU is ready"))
	}
}

// TestChosen: devices are used by their numbers, and a number that there is not is told.
func TestChosen(t *testing.T) {
	cudatest.Control(t).Configure("devices=3")
	o, _ := options(t)
	o.Devices = []int{2, 0}
	all := open(t, o)
	require.Len(t, all, 2)
	require.Equal(t, []int{0, 2}, []int{all[0].Number(), all[1].Number()})
	o.Devices, o.Registerer = []int{3}, nil
	_, err := Open(o)
	require.EqualError(t, err, "there is no GPU 3: the driver finds 3, numbered from 0; see promwarp devices")
}

func TestInventory(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2")
	inv := TakeInventory(cudatest.Library(t))
	require.Empty(t, inv.Reason)
	require.True(t, inv.Usable())
	require.Len(t, inv.Devices, 2)
	for i, d := range inv.Devices {
		require.Equal(t, i, d.Ordinal)
		require.True(t, d.Usable, d.Reason)
		require.Equal(t, "9.0", d.Capability)
		require.Equal(t, uint64(1<<30), d.FreeBytes)
		require.Positive(t, d.ToDevice)
		require.Positive(t, d.FromDevice)
		require.Positive(t, d.LaunchSeconds)
	}
	require.Zero(t, h.Held())
}

func TestInventoryWithoutDriver(t *testing.T) {
	inv := TakeInventory("libnothing.so.1")
	require.False(t, inv.Usable())
	require.Contains(t, inv.Reason, "no NVIDIA driver: libnothing.so.1: cannot open shared object file")
	require.NotNil(t, inv.Devices, "an empty list in JSON")
}

func TestInventoryOfUnusableDevice(t *testing.T) {
	h := cudatest.Control(t)
	for settings, reason := range map[string]string{
		"capability=61":                      "its compute capability is 6.1, and the kernels need 7.5 (Turing, 2018) or later",
		"cuDevicePrimaryCtxRetain:1=46":      "see with nvidia-smi -q -d COMPUTE whether another process has it to itself",
		"cuModuleLoadDataEx:1=222":           "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
		"memory=100":                         "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)",
		"cuLaunchKernel:2=719":               "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)",
		"cuDevicePrimaryCtxRelease_v2:1=999": "cuDevicePrimaryCtxRelease_v2: CUDA_ERROR_UNKNOWN (999)",
	} {
		h.Reset()
		h.Configure(settings)
		inv := TakeInventory(cudatest.Library(t))
		require.Len(t, inv.Devices, 1, settings)
		require.False(t, inv.Usable(), settings)
		require.Contains(t, inv.Devices[0].Reason, reason, settings)
		require.Equal(t, "promwarp host device 0", inv.Devices[0].Name)
	}
}

// TestInventoryFaults lets each call that an inventory makes fail in turn.
func TestInventoryFaults(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("memory=4096000")
	lib := cudatest.Library(t)
	require.True(t, TakeInventory(lib).Usable())
	for _, name := range []string{
		"cuMemGetInfo_v2", "cuModuleGetFunction", "cuStreamCreate", "cuMemHostAlloc", "cuMemAlloc_v2", "cuEventCreate",
		"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime",
		"cuStreamSynchronize", "cuLaunchKernel", "cuMemFree_v2", "cuMemFreeHost", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload",
	} {
		h.Reset()
		h.Configure("memory=4096000")
		TakeInventory(lib)
		n := h.Calls(name)
		require.NotZero(t, n, name)
		step := 1
		if testing.Short() {
			step = max(1, n/6)
		}
		for nth := 1; nth <= n; nth += step {
			h.Reset()
			h.Configure(fmt.Sprintf("memory=4096000,%s:%d=999", name, nth))
			inv := TakeInventory(lib)
			require.Len(t, inv.Devices, 1)
			require.Contains(t, inv.Devices[0].Reason, name+": CUDA_ERROR_UNKNOWN (999)", "call %d", nth)
			require.Zero(t, h.Held(), "after call %d of %s", nth, name)
		}
	}
}
