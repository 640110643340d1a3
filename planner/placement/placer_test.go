package placement

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
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
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var constants = Constants{
	Cores:  Costs{Sample: 10, Window: 10, Slow: 1},
	Device: Costs{Fixed: time.Millisecond, Sample: 0.1, Window: 0.1, Slow: 1},
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

// open opens a Placer for a test, on as many devices of the host driver.
func open(t testing.TB, devices int, change func(*Options)) (*Placer, *cudatest.Host, *log) {
	h, l := cudatest.Control(t), &log{}
	h.Configure(fmt.Sprintf("devices=%d", devices))
	o := Options{
		Options: device.Options{
			Require: true, MemoryFraction: 0.01, Library: cudatest.Library(t),
			Logger: slog.New(slog.NewTextHandler(l, nil)), Registerer: prometheus.NewRegistry(),
		},
		Constants: &constants, Workers: 2,
	}
	if change != nil {
		change(&o)
	}
	p, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, h, l
}

// counters is a selection of counters of one chunk each.
func counters(t testing.TB, series int) *selection.Selection {
	s, err := synthetic.Counters("m", series, shortSamples)
	require.NoError(t, err)
	return s
}

// leafOf opens a leaf over so many series, of a selector.
func leafOf(t testing.TB, ctx context.Context, series int, selector string) *cpuexec.Leaf {
	job := sumOfRates(counters(t, series), plan.Grid{Start: synthetic.Start, Interval: 225_000, Steps: 8})
	job.Node.(*plan.Aggregate).Input.(*plan.Window).Scan.Text = selector
	l, err := cpuexec.New(cpuexec.Options{}).OpenLeaf(ctx, job)
	require.NoError(t, err)
	return l
}

// computedBy has a GPU compute a leaf, and returns its number.
func computedBy(t testing.TB, p *Placer, l *cpuexec.Leaf) int {
	o, err := p.Evaluate(t.Context(), l, nil, true)
	require.NoError(t, err)
	require.Empty(t, o.Declined)
	return o.GPU
}

// busy is a GPU with more leaves under way, which take so long.
type busy struct {
	gpu
	leaves int64
	takes  time.Duration
}

func (b busy) Leaves() int64       { return b.gpu.Leaves() + b.leaves }
func (b busy) Wait() time.Duration { return b.gpu.Wait() + time.Duration(b.leaves)*b.takes }

// keepBusy gives one of the GPUs more to do until restore is called.
func keepBusy(p *Placer, number int, takes time.Duration) (restore func()) {
	gpus := p.gpus
	p.gpus = func() ([]gpu, string) {
		all, none := gpus()
		all[number] = busy{all[number], 1, takes}
		return all, none
	}
	return func() { p.gpus = gpus }
}

// TestSpread: different selectors are spread over idle GPUs, the same one comes to
// the same GPU, and a busy GPU is avoided.
func TestSpread(t *testing.T) {
	p, _, _ := open(t, 2, nil)
	used := map[int]int{}
	for k := range 20 {
		selector := fmt.Sprint("m", k)
		first := computedBy(t, p, leafOf(t, t.Context(), 10, selector))
		require.Equal(t, first, computedBy(t, p, leafOf(t, t.Context(), 10, selector)))
		used[first]++

		idle := keepBusy(p, first, 0)
		require.Equal(t, 1-first, computedBy(t, p, leafOf(t, t.Context(), 10, selector)))
		idle()
	}
	require.Greater(t, used[0], 3)
	require.Greater(t, used[1], 3)
}

// TestResident: a leaf goes to the GPU that has its chunks, even a busy one.
func TestResident(t *testing.T) {
	p, _, _ := open(t, 2, nil)
	l := leafOf(t, t.Context(), 200, "m")
	first := computedBy(t, p, l)
	defer keepBusy(p, first, 0)()
	require.Equal(t, first, computedBy(t, p, l))
}

// TestOneFails: while one GPU is left alone, the other evaluates everything.
func TestOneFails(t *testing.T) {
	reg := prometheus.NewRegistry()
	p, h, l := open(t, 2, func(o *Options) { o.Retry, o.Registerer = time.Hour, reg })
	h.Configure("cuLaunchKernel:1=999")
	failed := 0
	for k := range 10 {
		o, err := p.Evaluate(t.Context(), leafOf(t, t.Context(), 10, fmt.Sprint("m", k)), nil, true)
		require.NoError(t, err)
		if o.Declined != "" {
			require.Contains(t, o.Declined, "the GPU failed: cuLaunchKernel: CUDA_ERROR_UNKNOWN")
			failed++
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, 1, l.count("a GPU failed"))
	jobs, err := testutil.GatherAndCount(reg, "promwarp_gpu_jobs_total")
	require.NoError(t, err)
	require.Equal(t, 1, jobs)
	require.Equal(t, 1.0, testutil.ToFloat64(p.declined.WithLabelValues(reasonFailed)))
}

// TestClosed: after the GPUs are closed, the cores evaluate leaves.
func TestClosed(t *testing.T) {
	p, h, _ := open(t, 1, nil)
	p.Close()
	require.Zero(t, h.Held())
	o, err := p.Evaluate(t.Context(), leafOf(t, t.Context(), 10, "m"), nil, true)
	require.NoError(t, err)
	require.Equal(t, "the GPU is closed", o.Declined)
}

// TestEnded: the error of a query that has ended is the query's, and no reason.
func TestEnded(t *testing.T) {
	p, _, l := open(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	leaf := leafOf(t, ctx, 10, "m")
	cancel()
	o, err := p.Evaluate(ctx, leaf, nil, true)
	var query *cpuexec.QueryError
	require.ErrorAs(t, err, &query)
	require.Empty(t, o.Declined)
	require.Zero(t, l.count("a GPU failed"))
	require.Equal(t, 0, computedBy(t, p, leafOf(t, t.Context(), 10, "m")))
}

// TestWaiting: the time that leaves before it are expected to take counts against a
// GPU.
func TestWaiting(t *testing.T) {
	slow := constants
	slow.Cores.Sample = 1000
	p, _, _ := open(t, 1, func(o *Options) { o.Constants = &slow })
	l := leafOf(t, t.Context(), 200, "m")
	o, err := p.Evaluate(t.Context(), l, nil, false)
	require.NoError(t, err)
	require.Empty(t, o.Declined)
	defer keepBusy(p, 0, time.Hour)()
	o, err = p.Evaluate(t.Context(), leafOf(t, t.Context(), 200, "m"), nil, false)
	require.NoError(t, err)
	require.Contains(t, o.Declined, reasonCheaper)
	require.Greater(t, o.Estimate[Device], time.Hour)
}

// TestForget: what was forgotten is copied again.
func TestForget(t *testing.T) {
	p, _, _ := open(t, 2, nil)
	job := sumOfRates(counters(t, 200), plan.Grid{Start: synthetic.Start, Interval: 225_000, Steps: 8})
	var sel *selection.Selection
	copied := func() int64 {
		l, err := p.cpu.OpenLeaf(t.Context(), job)
		require.NoError(t, err)
		sel = l.Selection
		o, err := p.Evaluate(t.Context(), l, nil, true)
		require.NoError(t, err)
		require.Empty(t, o.Declined)
		return o.Stages.CopiedBytes
	}
	first := copied()
	require.Positive(t, first)
	require.Less(t, copied(), first)
	p.Forget(sel)
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

// TestMeasure: what is measured can be estimated from, and is stored for the next start, in place
// of what was stored there and is of no use.
func TestMeasure(t *testing.T) {
	file := t.TempDir() + "/constants.json"
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	opened := func() (*Placer, *log) {
		p, _, l := open(t, 1, func(o *Options) { o.Constants, o.ConstantsFile, o.MemoryFraction = nil, file, 0.2 })
		return p, l
	}
	p, l := opened()
	first := p.Constants()
	require.True(t, first.sound(), "%+v", first)
	require.Equal(t, 1, l.count("is of no use and is measured again"))
	require.Equal(t, 1, l.count("measured what the GPU and the cores do"))
	p, l = opened()
	require.Equal(t, first, p.Constants())
	require.Zero(t, l.count("measured what the GPU and the cores do"))
}

// BenchmarkMeasure is what measuring adds to a start.
func BenchmarkMeasure(b *testing.B) {
	cudatest.Control(b)
	cpu := cpuexec.New(cpuexec.Options{})
	s, err := device.Open(device.Options{
		Require: true, MemoryFraction: 0.5, Library: cudatest.Library(b), CPU: cpu,
		Opened: func(ctx context.Context, d device.Opened) error {
			for b.Loop() {
				c, err := measure(ctx, d.Executor, cpu)
				require.NoError(b, err)
				b.Logf("%+v", c)
			}
			return nil
		},
	})
	require.NoError(b, err)
	s.Close()
}

// TestReport: the devices are listed with their memory and what is on them, and the crossover comes
// from the constants: the cores win what is small, the GPU what is large, later where it must copy.
func TestReport(t *testing.T) {
	p, _, _ := open(t, 2, nil)
	l := leafOf(t, t.Context(), 100, "m")
	on := computedBy(t, p, l)
	require.Equal(t, 1.0, p.ResidentShare(l.Selection))

	r := p.Report()
	require.Empty(t, r.Reason)
	require.Equal(t, &constants, r.Constants)
	require.Len(t, r.Devices, 2)
	for i, d := range r.Devices {
		require.Equal(t, i, d.Ordinal)
		require.Equal(t, "promwarp host device "+string(rune('0'+i)), d.Name)
		require.Empty(t, d.Reason)
		require.Positive(t, d.Link)
		require.Greater(t, d.Taken, d.Room)
		require.Equal(t, i == on, d.Resident > 0, "device %d", i)
	}
	first, last := r.Crossover[0], r.Crossover[len(r.Crossover)-1]
	require.Less(t, first.Cores, first.Resident)
	require.Greater(t, last.Cores, last.Copied)
	for _, c := range r.Crossover {
		require.Less(t, c.Resident, c.Copied)
	}
}

// TestReportWithoutGPU: a Placer that is not there has nothing.
func TestReportWithoutGPU(t *testing.T) {
	var p *Placer
	require.Equal(t, Report{Reason: "no GPU is to be used (--gpu.mode=off)"}, func() Report { r := p.Report(); require.Empty(t, r.Devices); r.Devices = nil; return r }())
	require.Zero(t, p.ResidentShare(nil))
}
