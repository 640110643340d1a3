package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/ptx"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is a log that tests read.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// options are those of a Set of all devices of the host driver, and a log of it.
func options(t testing.TB) (Options, *log) {
	l := &log{}
	return Options{
		Require: true, MemoryFraction: 0.01, Library: cudatest.Library(t), CPU: cpuexec.New(cpuexec.Options{Workers: 2}),
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
	l, err := cpuexec.New(cpuexec.Options{}).OpenLeaf(t.Context(), cpuexec.Job{
		Node: node(w),
		Grid: plan.Grid{Start: synthetic.Start, Interval: 225_000, Steps: 8},
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	})
	require.NoError(t, err)
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
	require.Equal(t, (got.Stages.Total-got.Stages.Waited)/2, d.Wait())
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
	require.Equal(t, 1, l.count("a GPU failed"), "only the first is logged")
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
	require.Equal(t, 1, l.count("a GPU works again"))
	require.Equal(t, 1.0, testutil.ToFloat64(d.set.metrics.usable.WithLabelValues("0")))
}

// TestQueryError: an error of the query says nothing about the device.
func TestQueryError(t *testing.T) {
	cudatest.Control(t)
	o, l := options(t)
	d := open(t, o)[0]
	window := leafOf(t, func(w *plan.Window) plan.Node { return w })
	failed := &cpuexec.QueryError{Err: errors.New("too many samples")}
	_, err := d.Evaluate(t.Context(), window, func(cpuexec.Rows) error { return failed })
	require.ErrorIs(t, err, failed)
	require.Empty(t, d.Unusable(time.Now()))
	require.Zero(t, l.count("a GPU failed"))
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

// TestOpened: whoever opens a Set sees each device before leaves go to it, and can say
// that it is of no use.
func TestOpened(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2")
	o, _ := options(t)
	seen := 0
	o.Opened = func(_ context.Context, d Opened) error {
		require.Equal(t, fmt.Sprintf("promwarp host device %d", seen), d.Name)
		require.Positive(t, d.Executor.Link())
		seen++
		return nil
	}
	s, err := Open(o)
	require.NoError(t, err)
	require.Equal(t, 2, seen)
	s.Close()
	o.Registerer = nil
	o.Opened = func(context.Context, Opened) error { return errors.New("too slow") }
	_, err = Open(o)
	require.EqualError(t, err, "measuring GPU 0: too slow")
	require.Zero(t, h.Held())
}

// TestFirstKernels: a device is used once the kernels are loaded that most leaves need, which leave
// out the larger part of what a driver compiles; the others are loaded then.
func TestFirstKernels(t *testing.T) {
	h := cudatest.Control(t)
	o, _ := options(t)
	const loads = "cuModuleLoadDataEx"
	o.Require = false
	begun, going := make(chan struct{}), make(chan struct{})
	o.Opened = func(context.Context, Opened) error {
		require.Equal(t, len(launch.First), h.Calls(loads))
		close(begun)
		<-going
		return nil
	}
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
	require.Equal(t, len(launch.Queries()), h.Calls(loads))
	bytes := func(ks []launch.Kernel) (n int) {
		for _, k := range ks {
			n += len(ptx.Of(string(k)))
		}
		return n
	}
	require.Less(t, bytes(launch.First), bytes(launch.Queries())*2/5)
}

// TestMemoryBytes: no more of a device's memory is allocated than was said.
func TestMemoryBytes(t *testing.T) {
	for _, most := range []int64{32 << 20, 1 << 60} {
		cudatest.Control(t)
		o, l := options(t)
		o.MemoryFraction, o.MemoryBytes = 0.5, most
		open(t, o)
		require.Equal(t, most == 32<<20, l.count(fmt.Sprintf("memory_bytes=%d ", most)) == 1, most)
		require.Equal(t, 1, l.count("a GPU is ready"))
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
