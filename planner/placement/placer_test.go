package placement

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/internal/testlog"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var constants = Constants{
	Cores:  Costs{Sample: 10},
	Device: Costs{Fixed: time.Millisecond, Sample: 0.1},
	Link:   10e9,
}

// open opens a Placer for a test, on as many devices of the host driver.
func open(t testing.TB, devices int, change func(*Options)) (*Placer, *cudatest.Host, *testlog.Log) {
	h, l := cudatest.Control(t), &testlog.Log{}
	h.Configure(fmt.Sprintf("devices=%d", devices))
	o := Options{
		Options: device.Options{
			Require: true, MemoryFraction: 0.01, Library: cudatest.Library(t),
			Logger: slog.New(slog.NewTextHandler(l, nil)), Registerer: prometheus.NewRegistry(),
		},
		Constants: &constants,
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
	s, err := synthetic.Counters("m", series, synthetic.ChunkSamples)
	require.NoError(t, err)
	return s
}

// leafOf is a leaf over a number of series, of a selector, that a GPU is to compute.
func leafOf(t testing.TB, ctx context.Context, series int, selector string) *cpuexec.Leaf {
	job := sumOfRates(nil, plan.Grid{Start: synthetic.Start, Interval: 225_000, Steps: 8})
	job.Node.(*plan.Aggregate).Input.(*plan.Window).Scan.Text = selector
	l := cpuexec.LeafOf(job.Node)
	l.Grid = job.Grid
	l.Input = offload.Input{
		Selection: counters(t, series), Windows: 8, GroupOf: make([]int32, series), Groups: 1, Forced: true, Ended: func() error { return plan.Ended(ctx) },
	}
	l.From, l.To = l.Window.Reads(l.Grid)
	return l
}

// computedBy has a GPU compute a leaf, and returns its number.
func computedBy(t testing.TB, p *Placer, l *cpuexec.Leaf) int {
	o, err := p.Evaluate(t.Context(), l, nil)
	require.NoError(t, err)
	require.Empty(t, o.Declined)
	return *o.Choice.Device
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
		o, err := p.Evaluate(t.Context(), leafOf(t, t.Context(), 10, fmt.Sprint("m", k)), nil)
		require.NoError(t, err)
		if o.Declined != "" {
			require.Contains(t, o.Declined, "the GPU failed: cuLaunchKernel: CUDA_ERROR_UNKNOWN")
			failed++
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, 1, l.Count("a GPU failed"))
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
	o, err := p.Evaluate(t.Context(), leafOf(t, t.Context(), 10, "m"), nil)
	require.NoError(t, err)
	require.Equal(t, "the GPU is closed", o.Declined)
}

// TestEnded: the error of a query that has ended is the query's, and no reason.
func TestEnded(t *testing.T) {
	p, _, l := open(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	leaf := leafOf(t, ctx, 10, "m")
	cancel()
	o, err := p.Evaluate(ctx, leaf, nil)
	require.Equal(t, plan.Ended(ctx), err)
	require.Empty(t, o.Declined)
	require.Zero(t, l.Count("a GPU failed"))
	require.Equal(t, 0, computedBy(t, p, leafOf(t, t.Context(), 10, "m")))
}

// TestWaiting: the time that leaves before it are expected to take counts against a
// GPU.
func TestWaiting(t *testing.T) {
	slow := constants
	slow.Cores.Sample = 1000
	p, _, _ := open(t, 1, func(o *Options) { o.Constants = &slow })
	l := leafOf(t, t.Context(), 200, "m")
	l.Forced = false
	o, err := p.Evaluate(t.Context(), l, nil)
	require.NoError(t, err)
	require.Empty(t, o.Declined)
	defer keepBusy(p, 0, time.Hour)()
	l = leafOf(t, t.Context(), 200, "m")
	l.Forced = false
	o, err = p.Evaluate(t.Context(), l, nil)
	require.NoError(t, err)
	require.Contains(t, o.Declined, reasonCheaper)
	require.Greater(t, o.Choice.GPU, time.Hour.Microseconds())
}

// TestForget: what was forgotten is copied again.
func TestForget(t *testing.T) {
	p, _, _ := open(t, 2, nil)
	l := leafOf(t, t.Context(), 200, "m")
	copied := func() int64 {
		o, err := p.Evaluate(t.Context(), l, nil)
		require.NoError(t, err)
		require.Empty(t, o.Declined)
		return o.Choice.Stages.Copied
	}
	first := copied()
	require.Positive(t, first)
	require.Less(t, copied(), first)
	p.Forget(l.Selection)
	require.Equal(t, first, copied())
}

// TestSize: how much work a leaf is, is found from some of its series.
func TestSize(t *testing.T) {
	for _, series := range []int{0, 1, 511, 512, 5000} {
		l := leafOf(t, t.Context(), series, "m")
		size := l.Size()
		require.InDelta(t, series*synthetic.ChunkSamples, size.Samples, 1)
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

// TestMeasure: what is measured can be estimated from.
func TestMeasure(t *testing.T) {
	p, _, l := open(t, 1, func(o *Options) { o.Constants, o.MemoryFraction = nil, 0.2 })
	c := *p.Report().Constants
	require.Positive(t, c.Cores.Sample)
	require.Positive(t, c.Device.Sample)
	require.Positive(t, c.Link)
	require.Equal(t, 1, l.Count("measured what the GPU and the cores do"))
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

// resampled asks for the means of a selection's buckets.
func resampled(t *testing.T, p *Placer, series int, change func(*resample.Plan)) (*resample.Result, error) {
	sel := counters(t, series)
	r, err := requestOver(plan.Grid{Start: synthetic.Start + 60_000, Interval: 60_000, Steps: 20})
	require.NoError(t, err)
	r.Executor = resample.ChooseBySize
	if change != nil {
		change(r)
	}
	got, err := resample.New(resample.Options{Accelerator: p}).Run(t.Context(), selection.Single{Selection: sel}, r)
	if err != nil {
		return nil, err
	}
	onCores := *r
	onCores.Executor, onCores.Strict = resample.ChooseCores, false
	want, err := resample.New(resample.Options{}).Run(t.Context(), selection.Single{Selection: sel}, &onCores)
	require.NoError(t, err)
	require.Equal(t, want.Series, got.Series)
	return got, nil
}

// TestResample: small requests stay on the cores unless they ask for a GPU, large ones go to it.
func TestResample(t *testing.T) {
	p, _, _ := open(t, 1, nil)
	got, err := resampled(t, p, 4, nil)
	require.NoError(t, err)
	require.Equal(t, "cpu", got.Work.Executor)
	require.Contains(t, got.Work.Reason, "the cores are expected to be faster: ")

	forced := func(r *resample.Plan) { r.Executor, r.Strict = resample.ChooseGPU, true }
	got, err = resampled(t, p, 4, forced)
	require.NoError(t, err)
	require.Equal(t, "gpu", got.Work.Executor)
	require.Equal(t, "the request asks for it", got.Work.Reason)

	got, err = resampled(t, p, 0, forced)
	require.NoError(t, err)
	require.Equal(t, "there are no series", got.Work.Reason)

	got, err = resampled(t, p, 2000, nil)
	require.NoError(t, err)
	require.Equal(t, "gpu", got.Work.Executor)
	require.Contains(t, got.Work.Reason, "the GPU is expected to be faster: ")
	var names []string
	for _, s := range got.Work.Stages {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"fetch", "wait", "compute", "device wait", "prepare", "transfer", "decode", "count_uniqs", "merge", "fetch back"}, names)

	got, err = resampled(t, p, 2000, func(r *resample.Plan) { r.Executor = resample.ChooseCores })
	require.NoError(t, err)
	require.Equal(t, "cpu", got.Work.Executor)
	require.Equal(t, 1.0, testutil.ToFloat64(p.declined.WithLabelValues("the cores are expected to be faster")))
}

// TestResampleCustom: a custom aggregate is compiled in the background where cores are faster than
// that, and then a GPU computes it; a request that asks for a GPU waits.
func TestResampleCustom(t *testing.T) {
	p, _, _ := open(t, 1, nil)
	planned := func(field string, choice resample.Choice) *resample.Plan {
		s := custom.Source{Name: "f", State: map[string]string{"x": field}, Add: map[string]string{"x": "x + v"}, Merge: map[string]string{"x": "a.x + b.x"}, Result: "x"}
		l, err := custom.AddTo(aggregate.Library{}, []custom.Source{s})
		require.NoError(t, err)
		of, err := l.Parse("f")
		require.NoError(t, err)
		r, err := requestOver(plan.Grid{Start: synthetic.Start + 60_000, Interval: 60_000, Steps: 20})
		require.NoError(t, err)
		r.Request.Executor, r.Aggregates = choice, []aggregate.Aggregate{of}
		r, err = resample.NewPlan(&r.Request)
		require.NoError(t, err)
		return r
	}
	ask := func(field string, choice resample.Choice) *resample.Result {
		p.model.Store(NewModel(constants)) // whatever requests before this one took
		got, err := resample.New(resample.Options{Accelerator: p}).Run(t.Context(), selection.Single{Selection: counters(t, 2000)}, planned(field, choice))
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "its kernels are being compiled for the GPU", ask("0", resample.ChooseBySize).Work.Reason)
	gpus, _ := p.gpus()
	sel := counters(t, 2000)
	task := &resample.Task{Plan: planned("0", resample.ChooseBySize), Input: offload.Input{Selection: sel, GroupOf: make([]int32, 2000), Groups: 1}}
	require.Eventually(t, func() bool { return gpus[0].Ready(task, 0) }, time.Minute, time.Millisecond)
	got := ask("0", resample.ChooseBySize)
	require.Equal(t, "gpu", got.Work.Executor, got.Work.Reason)
	require.Equal(t, "compile", got.Work.Stages[3].Name)
	require.Equal(t, ask("0", resample.ChooseCores).Series, got.Series)
	require.Equal(t, "gpu", ask("1", resample.ChooseGPU).Work.Executor)
	require.Equal(t, "gpu", ask("1", resample.ChooseBySize).Work.Executor)
}

// TestResampleFailure: the cores compute what a GPU fails at, also one that is lost, and a request
// that insists fails.
func TestResampleFailure(t *testing.T) {
	p, h, _ := open(t, 1, nil)
	h.Configure("cuLaunchKernel:2=2")
	got, err := resampled(t, p, 2000, nil)
	require.NoError(t, err)
	require.Equal(t, "cpu", got.Work.Executor)
	require.Contains(t, got.Work.Reason, "the GPU failed: cuLaunchKernel: CUDA_ERROR_OUT_OF_MEMORY")

	p, h, _ = open(t, 1, nil)
	h.Configure("cuLaunchKernel:2=719")
	got, err = resampled(t, p, 2000, nil)
	require.NoError(t, err)
	require.Equal(t, "cpu", got.Work.Executor)
	got, err = resampled(t, p, 2000, nil)
	require.NoError(t, err)
	require.Contains(t, got.Work.Reason, "the GPU is of no use until promwarp is restarted")
	_, err = resampled(t, p, 2000, func(r *resample.Plan) { r.Executor, r.Strict = resample.ChooseGPU, true })
	var wrong *resample.Error
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, resample.CodeUnsupported, wrong.Code)
}

// TestResampleCancelled: a request that has ended computes nothing, and its error is that.
func TestResampleCancelled(t *testing.T) {
	p, _, _ := open(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := requestOver(plan.Grid{Start: synthetic.Start + 60_000, Interval: 60_000, Steps: 20})
	require.NoError(t, err)
	r.Executor = resample.ChooseGPU
	cancel()
	_, err = resample.New(resample.Options{Accelerator: p}).Run(ctx, selection.Single{Selection: counters(t, 100)}, r)
	require.ErrorIs(t, err, plan.Ended(ctx))
}

// requestOver asks for the means of all series, in buckets that are the steps of a grid.
func requestOver(g plan.Grid) (*resample.Plan, error) {
	r := &resample.Request{
		Selectors: [][]*labels.Matcher{nil}, Start: g.Start - g.Interval, End: g.At(g.Steps - 1),
		Layout: bucket.Layout{Every: bucket.Span{N: g.Interval}}, Grouping: &resample.Grouping{}, Executor: resample.ChooseCores,
	}
	mean, err := aggregate.Library{}.Parse("mean")
	if err != nil {
		return nil, err
	}
	r.Aggregates = []aggregate.Aggregate{mean}
	return resample.NewPlan(r)
}
