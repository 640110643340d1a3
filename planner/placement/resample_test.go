package placement

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// resampled asks for the means of a selection's buckets.
func resampled(t *testing.T, p *Placer, series int, change func(*resample.Plan)) (*resample.Result, error) {
	sel := counters(t, series)
	r, err := requestOver(plan.Grid{Start: synthetic.Start + 60_000, Interval: 60_000, Steps: 20})
	require.NoError(t, err)
	r.Executor = resample.ChooseBySize
	if change != nil {
		change(r)
	}
	got, err := resample.New(resample.Options{Accelerator: p}).Run(t.Context(), synthetic.Storage{Selection: sel}, r)
	if err != nil {
		return nil, err
	}
	onCores := *r
	onCores.Executor, onCores.Strict = resample.ChooseCores, false
	want, err := resample.New(resample.Options{}).Run(t.Context(), synthetic.Storage{Selection: sel}, &onCores)
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
		p.model.Store(newModel(constants)) // whatever requests before this one took
		got, err := resample.New(resample.Options{Accelerator: p}).Run(t.Context(), synthetic.Storage{Selection: counters(t, 2000)}, planned(field, choice))
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "its kernels are being compiled for the GPU", ask("0", resample.ChooseBySize).Work.Reason)
	gpus, _ := p.gpus()
	sel := counters(t, 2000)
	task := &resample.Task{Plan: planned("0", resample.ChooseBySize), Selection: sel, GroupOf: make([]int32, 2000), Groups: 1}
	require.Eventually(t, func() bool { return gpus[0].Compiles(task) == 0 }, time.Minute, time.Millisecond)
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
	_, err = resample.New(resample.Options{Accelerator: p}).Run(ctx, synthetic.Storage{Selection: counters(t, 100)}, r)
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
