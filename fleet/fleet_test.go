package fleet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var constants = placement.Constants{
	Cores:  placement.Costs{Sample: 10, Window: 10, Slow: 1},
	Device: placement.Costs{Fixed: time.Millisecond, Sample: 0.1, Window: 0.1, Slow: 1},
	Link:   10e9,
}

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

// open opens a fleet for a test, on as many devices of the host driver.
func open(t testing.TB, devices int, change func(*Options)) (*Fleet, *cudatest.Host, *log) {
	h, l := cudatest.Control(t), &log{}
	h.Configure(fmt.Sprintf("devices=%d", devices))
	o := Options{
		Require: true, MemoryFraction: 0.01, Library: cudatest.Library(t), Constants: &constants, Workers: 2,
		Logger: slog.New(slog.NewTextHandler(l, nil)), Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&o)
	}
	f, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f, h, l
}

// counters is a selection of counters of one chunk each.
func counters(t testing.TB, series int) *selection.Selection {
	s, err := synthetic.Counters("m", series, shortSamples)
	require.NoError(t, err)
	return s
}

// leafOf opens a leaf over so many series, of a selector.
func leafOf(t testing.TB, ctx context.Context, series int, selector string) *cpuexec.Leaf {
	job := rates(counters(t, series), plan.Grid{Start: synthetic.Start, Interval: 225_000, Steps: 8})
	job.Node.(*plan.Aggregate).Input.(*plan.Window).Scan.Text = selector
	l, err := cpuexec.New(cpuexec.Options{}).OpenLeaf(ctx, job)
	require.NoError(t, err)
	return l
}

// TestSpread: different selectors are spread over idle devices, the same one comes to
// the same device, and a busy device is avoided.
func TestSpread(t *testing.T) {
	f, _, _ := open(t, 2, nil)
	used := map[int]int{}
	for k := range 20 {
		selector := fmt.Sprint("m", k)
		first, err := f.Evaluate(t.Context(), leafOf(t, t.Context(), 10, selector), nil, true)
		require.NoError(t, err)
		require.Empty(t, first.Declined)
		again, err := f.Evaluate(t.Context(), leafOf(t, t.Context(), 10, selector), nil, true)
		require.NoError(t, err)
		require.Equal(t, first.GPU, again.GPU)
		used[first.GPU]++

		f.all()[first.GPU].leaves.Add(1) // as if another was under way
		other, err := f.Evaluate(t.Context(), leafOf(t, t.Context(), 10, selector), nil, true)
		f.all()[first.GPU].leaves.Add(-1)
		require.NoError(t, err)
		require.Equal(t, 1-first.GPU, other.GPU)
	}
	require.Greater(t, used[0], 3)
	require.Greater(t, used[1], 3)
}

// TestOneFails: while one device is left alone, the other evaluates everything.
func TestOneFails(t *testing.T) {
	f, h, l := open(t, 2, func(o *Options) { o.Retry = time.Hour })
	h.Configure("cuLaunchKernel:1=999")
	failed := 0
	for k := range 10 {
		o, err := f.Evaluate(t.Context(), leafOf(t, t.Context(), 10, fmt.Sprint("m", k)), nil, true)
		require.NoError(t, err)
		if o.Declined != "" {
			require.Contains(t, o.Declined, "the GPU failed: cuLaunchKernel: CUDA_ERROR_UNKNOWN")
			failed++
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, 1, l.count("a GPU failed"))
	require.Equal(t, 1, testutil.CollectAndCount(f.metrics.jobs))
}

// TestRetries: a device that fails again and again is tried ever less often, by one
// leaf at a time.
func TestRetries(t *testing.T) {
	f, h, l := open(t, 1, func(o *Options) { o.Retry = 20 * time.Millisecond })
	d := f.all()[0]
	for k := range 4 {
		h.Configure("cuLaunchKernel:1=999")
		require.Eventually(t, func() bool { return d.usable(time.Now()) == "" }, 5*time.Second, time.Millisecond)
		o, err := f.Evaluate(t.Context(), leafOf(t, t.Context(), 10, "m"), nil, true)
		require.NoError(t, err)
		require.Contains(t, o.Declined, "CUDA_ERROR_UNKNOWN")
		require.Equal(t, 20*time.Millisecond<<(k+1), d.retry)
		require.NotEmpty(t, d.usable(time.Now()))
	}
	require.Equal(t, 1, l.count("a GPU failed"), "only the first is logged")
	require.Equal(t, 4.0, testutil.ToFloat64(f.metrics.faults.WithLabelValues("0", "CUDA_ERROR_UNKNOWN")))
	d.mu.Lock()
	d.until = time.Now()
	d.mu.Unlock()
	require.True(t, d.begin())
	require.NotEmpty(t, d.usable(time.Now()), "one is trying already")
	require.False(t, d.begin())
	d.leave()
	o, err := f.Evaluate(t.Context(), leafOf(t, t.Context(), 10, "m"), nil, true)
	require.NoError(t, err)
	require.Empty(t, o.Declined)
	require.Equal(t, 20*time.Millisecond, d.retry)
	require.Equal(t, 1, l.count("a GPU works again"))
}

// TestClosed: after the fleet is closed, leaves are left to the cores.
func TestClosed(t *testing.T) {
	f, h, _ := open(t, 1, nil)
	f.Close()
	require.Zero(t, h.Held())
	o, err := f.Evaluate(t.Context(), leafOf(t, t.Context(), 10, "m"), nil, true)
	require.NoError(t, err)
	require.Equal(t, "the GPU is closed", o.Declined)
}

// TestWaiting: the time that leaves before it are expected to take counts against a
// device.
func TestWaiting(t *testing.T) {
	slow := constants
	slow.Cores.Sample = 1000
	f, _, _ := open(t, 1, func(o *Options) { o.Constants = &slow })
	l := leafOf(t, t.Context(), 200, "m")
	o, err := f.Evaluate(t.Context(), l, nil, false)
	require.NoError(t, err)
	require.Empty(t, o.Declined)
	d := f.all()[0]
	d.typical.Store(int64(time.Hour))
	d.leaves.Add(1)
	defer d.leaves.Add(-1)
	o, err = f.Evaluate(t.Context(), leafOf(t, t.Context(), 200, "m"), nil, false)
	require.NoError(t, err)
	require.Contains(t, o.Declined, reasonCheaper)
	require.Greater(t, o.Estimate[placement.Device], time.Hour)
}

// TestForget: what was forgotten is copied again.
func TestForget(t *testing.T) {
	f, _, _ := open(t, 2, nil)
	job := rates(counters(t, 200), plan.Grid{Start: synthetic.Start, Interval: 225_000, Steps: 8})
	var sel *selection.Selection
	copied := func() int64 {
		l, err := f.cpu.OpenLeaf(t.Context(), job)
		require.NoError(t, err)
		sel = l.Selection
		o, err := f.Evaluate(t.Context(), l, nil, true)
		require.NoError(t, err)
		require.Empty(t, o.Declined)
		return o.Stages.CopiedBytes
	}
	first := copied()
	require.Positive(t, first)
	require.Less(t, copied(), first)
	f.Forget(sel)
	require.Equal(t, first, copied())
}

// TestSize: how much work a leaf is, is found from some of its series.
func TestSize(t *testing.T) {
	for _, series := range []int{0, 1, 511, 512, 5000} {
		l := leafOf(t, t.Context(), series, "m")
		size := SizeOf(l)
		require.InDelta(t, series*shortSamples, size.Samples, 1)
		require.EqualValues(t, series, size.Series)
		require.EqualValues(t, series*8, size.Windows)
		require.Equal(t, "rate", size.Function)
		bytes := 0
		for i := range series {
			bytes += int(l.Selection.Chunks(i)[0].Len)
		}
		require.InDelta(t, bytes, size.Missing, 0.02*float64(bytes))
	}
}

// TestMeasure: what is measured can be estimated from, and is kept.
func TestMeasure(t *testing.T) {
	file := t.TempDir() + "/constants.json"
	f, _, l := open(t, 1, func(o *Options) { o.Constants, o.ConstantsFile, o.MemoryFraction = nil, file, 0.2 })
	c := f.Constants()
	require.True(t, c.Sound(), "%+v", c)
	kept, err := placement.Read(file, f.machine(f.all()[0]), time.Now())
	require.NoError(t, err)
	require.Equal(t, c, kept)
	require.Equal(t, 1, l.count("measured what"))
}

// BenchmarkMeasure is what measuring adds to a start.
func BenchmarkMeasure(b *testing.B) {
	f, _, _ := open(b, 1, func(o *Options) { o.MemoryFraction, o.Workers = 0.5, 0 })
	x := f.all()[0].x
	for b.Loop() {
		c, err := measure(b.Context(), x, f.cpu)
		require.NoError(b, err)
		b.Logf("%+v", c)
	}
}

// TestMemoryBytes: no more of a device's memory is taken than was said.
func TestMemoryBytes(t *testing.T) {
	for _, most := range []int64{32 << 20, 1 << 60} {
		_, _, l := open(t, 1, func(o *Options) { o.MemoryFraction, o.MemoryBytes = 0.5, most })
		require.Equal(t, most == 32<<20, l.count(fmt.Sprintf("memory_bytes=%d ", most)) == 1, most)
		require.Equal(t, 1, l.count("a GPU is ready"))
	}
}
