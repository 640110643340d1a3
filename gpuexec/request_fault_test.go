package gpuexec_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/synthetic"
)

const someHours = "metric=m&every=5m&start=0&end=36000&aggregates="

var little = pipeline.Options{Memory: 32 << 20, Staging: 1 << 20}

// over are the results of a request over a selection by an accelerator, which are released with the
// test, if not before. It may name the examples.
func over(t testing.TB, ctx context.Context, a offload.Accelerator, sel *selection.Selection, form string) (*resample.Result, error) {
	got, err := resample.New(resample.Options{Accelerator: a}).Run(ctx, selection.Single{Selection: sel}, planned(t, form, examples(t)...))
	if err == nil {
		t.Cleanup(got.Release)
	}
	return got, err
}

// TestEveryFault lets each call that a request makes fail in turn: the error names it, the next
// request's answer is right, and closing gives everything back.
func TestEveryFault(t *testing.T) {
	h := cudatest.Control(t)
	sel := random(t, rand.New(rand.NewPCG(3, 4)), 72, 0, 12_000_000)
	noneLent := little
	noneLent.Rows = -1
	for _, c := range []struct {
		fields string
		o      pipeline.Options
	}{{"sum,max,median,rms&by=job", little}, {"sum,max,median,longest_above", little}, {"sum,max,median,longest_above", noneLent}} {
		want, err := over(t, t.Context(), nil, sel, someHours+c.fields)
		require.NoError(t, err)
		run := func() error {
			dev, err := cudatest.Open(t).Device(0)
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			m, err := pipeline.New(dev, c.o)
			if err != nil {
				return err
			}
			m.GoodBatch = 1 << 18
			a := &counting{Alone: gpuexec.Alone{Machine: m}}
			first, runErr := over(t, t.Context(), a, sel, someHours+c.fields)
			if runErr == nil {
				first.Release()
			}
			got, err := over(t, t.Context(), a, sel, someHours+c.fields)
			if err == nil {
				same(t, want, got, "after a fault")
				got.Release()
			}
			return errors.Join(runErr, err, m.Close())
		}
		h.Reset()
		require.NoError(t, run())
		for _, name := range []string{"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuStreamSynchronize", "cuEventRecord", "cuEventSynchronize", "cuLaunchKernel", "cuModuleLoadDataEx", "cuModuleUnload"} {
			h.Reset()
			require.NoError(t, run())
			calls := h.Calls(name)
			require.Positive(t, calls, name)
			for nth := 1; nth <= calls; nth += max(1, calls/some(6)) {
				h.Reset()
				h.Configure(fmt.Sprintf("%s:%d=999", name, nth))
				require.ErrorContains(t, run(), name+": CUDA_ERROR_UNKNOWN (999)", "call %d", nth)
				require.Zero(t, h.Held(), "%s call %d", name, nth)
			}
		}
	}
}

// TestTooLittleMemory: what does not fit is unsuited.
func TestTooLittleMemory(t *testing.T) {
	sel := random(t, rand.New(rand.NewPCG(7, 8)), 100, 0, 36_000_000)
	for _, c := range []struct {
		memory uint64
		fields string
		reason string
	}{
		{256 << 10, "mean&without=i", "32 series alone need more memory than the executor has on the device"},
		{256 << 10, "mean,max,last&by=i&reaggregate=sum", "its groups, at every step or bucket, need more memory than the executor has on the device"},
	} {
		a := on(t, pipeline.Options{Memory: c.memory, Staging: 1 << 20})
		_, err := over(t, t.Context(), &a.Alone, sel, someHours+c.fields)
		var u *pipeline.Unsuited
		require.ErrorAs(t, err, &u, c.fields)
		require.Equal(t, c.reason, u.Reason, c.fields)
	}
	many, err := synthetic.Counters("m", 2000, 500)
	require.NoError(t, err)
	a := on(t, pipeline.Options{Memory: 10 << 20, Staging: 1 << 20})
	_, err = over(t, t.Context(), &a.Alone, many, fmt.Sprintf("metric=m&every=5m&start=%d&end=%d&aggregates=median&by=job", synthetic.Start/1000, synthetic.Start/1000+7500))
	require.EqualError(t, err, "not on the GPU: the samples of its groups, which order statistics need at once, need more memory than the executor has on the device")
	_, err = over(t, t.Context(), &a.Alone, sel, "metric=m&every=1m&start=0&end=15768000&aggregates=mean,max")
	require.EqualError(t, err, "not on the GPU: the values of a series, at all steps or buckets, need more page-locked memory than a buffer has")
}

// TestLongRuns: runs are sorted up to a length, and longer ones are unsuited.
func TestLongRuns(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 64 << 20})
	for _, samples := range []int{64, 65, 100, 2047, 2048} {
		sel, err := synthetic.Counters("m", 3, samples)
		require.NoError(t, err)
		form := fmt.Sprintf("metric=m&every=10y&start=%d&end=%d&aggregates=median,95pct,nunique", synthetic.Start/1000-3600*24*365*20, synthetic.Start/1000+3600*24*365)
		check(t, a, selection.Single{Selection: sel}, form, fmt.Sprint(samples))
	}
	require.Zero(t, a.declined)
	sel, err := synthetic.Counters("m", 3, 2049)
	require.NoError(t, err)
	_, err = over(t, t.Context(), &a.Alone, sel, fmt.Sprintf("metric=m&every=10y&start=%d&end=%d&aggregates=median", synthetic.Start/1000-3600*24*365*20, synthetic.Start/1000+3600*24*365))
	require.EqualError(t, err, "not on the GPU: runs of more than 2048 samples are not sorted on the GPU")
}

// TestMixedZeros: an order statistic of a series that depends on how zeros of both signs are sorted is
// unsuited; all else has the cores' bits.
func TestMixedZeros(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 64 << 20})
	zeros := func(value func(k int) float64) *selection.Selection {
		b := selection.NewBuilder(0)
		for i := range 40 {
			b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i), "job", fmt.Sprint(i%3)))
			chunks(t, b, 700, 5000, func(k int) float64 { return value(k + i) })
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		return sel
	}
	minus := math.Copysign(0, -1)
	mixed := zeros(func(k int) float64 { return []float64{0, minus, 1, minus, 0}[k%5] })
	for _, c := range []struct {
		name, fields string
		sel          *selection.Selection
	}{
		{"groups", "median,nunique,95pct,sum,time_weighted_mean&by=job", mixed},
		{"not of order", "sum,mean,min,max,first,last,time_weighted_mean,nunique", mixed},
		{"a quantile that is no zero", "100pct", mixed},
		{"zeros of one sign", "median,20pct", zeros(func(k int) float64 { return []float64{minus, -1, 1, 2}[k%4] })},
	} {
		check(t, a, selection.Single{Selection: c.sel}, someHours+c.fields, c.name)
	}
	require.Zero(t, a.declined)
	for _, fields := range []string{"median", "20pct&by=job&reaggregate=max"} {
		_, err := over(t, t.Context(), &a.Alone, mixed, someHours+fields)
		require.EqualError(t, err, "not on the GPU: a quantile depends on how zeros of either sign are sorted")
	}
}

// TestOverflows: sums of groups and means by time whose partial sums overflow have the cores' bits.
func TestOverflows(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 64 << 20})
	for round := range 30 {
		r := rand.New(rand.NewPCG(41, uint64(round)))
		kinds := []float64{math.MaxFloat64, -math.MaxFloat64, 1.7e308, 1, 9e307, math.Inf(1), math.Inf(-1)}
		kinds = kinds[:3+r.IntN(len(kinds)-2)]
		b := selection.NewBuilder(0)
		for i := range 40 {
			b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i), "job", fmt.Sprint(i%3)))
			chunks(t, b, 300, 60_000, func(int) float64 { return kinds[r.IntN(len(kinds))] })
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		fields := "sum,mean,std,time_weighted_mean,rate:time_weighted_mean" + []string{"", "&by=job"}[r.IntN(2)] + []string{"", "&closed=right"}[r.IntN(2)] + []string{"", "&period=8m"}[r.IntN(2)]
		check(t, a, selection.Single{Selection: sel}, someHours+fields, fmt.Sprintf("round %d: %s", round, fields))
	}
	require.Zero(t, a.declined)
}

// TestCancelled: a request that ends stops, with its own error, and the next one is answered.
func TestCancelled(t *testing.T) {
	sel := random(t, rand.New(rand.NewPCG(9, 10)), 400, 0, 36_000_000)
	a := on(t, little)
	a.GoodBatch = 1 << 18
	ctx, cancel := context.WithCancel(t.Context())
	p := planned(t, someHours+"mean")
	pieces := 0
	task := &resample.Task{Plan: p, Input: offload.Input{Selection: sel, From: 0, To: 36_000_000 - 1, Windows: p.Grid.N(), GroupOf: make([]int32, 400), Groups: 400, Ended: func() error {
		if ctx.Err() != nil {
			return promql.ErrQueryCanceled("test")
		}
		return nil
	}}}
	for i := range task.GroupOf {
		task.GroupOf[i] = int32(i)
	}
	_, err := gpuexec.Evaluate(ctx, a.Machine, task, func(c *offload.Rows) error { pieces++; cancel(); c.Release(); return nil })
	var request *pipeline.RequestError
	require.ErrorAs(t, err, &request)
	require.ErrorIs(t, err, promql.ErrQueryCanceled("test"))
	require.Equal(t, 1, pieces)
	check(t, a, selection.Single{Selection: sel}, someHours+"mean", "after one that was cancelled")
}

// TestLimits: values of the answer count as on cores.
func TestLimits(t *testing.T) {
	sel := random(t, rand.New(rand.NewPCG(11, 12)), 100, 0, 36_000_000)
	p := planned(t, someHours+"mean,max")
	for _, most := range []int{100, 1_000_000} {
		_, want := resample.New(resample.Options{MaxSamples: most}).Run(t.Context(), selection.Single{Selection: sel}, p)
		result, got := resample.New(resample.Options{MaxSamples: most, Accelerator: on(t, little)}).Run(t.Context(), selection.Single{Selection: sel}, p)
		if got == nil {
			result.Release()
		}
		require.Equal(t, most > 1000, want == nil)
		require.Equal(t, want, got)
	}
	a := on(t, little)
	check(t, a, selection.Single{Selection: sel}, someHours+"mean&limit=100", "as many as there are")
	got, err := over(t, t.Context(), a, sel, someHours+"mean&limit=3")
	require.NoError(t, err)
	require.True(t, got.Truncated)
	require.Equal(t, "it is over once its limit is reached", got.Work.Reason)
}

// TestCorruptChunk: the error names the series, and the selection is discarded.
func TestCorruptChunk(t *testing.T) {
	for _, fields := range []string{"mean", "mean&by=", "median&by="} {
		b := selection.NewBuilder(0)
		for i := range 70 {
			b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i)))
			data := selectiontest.Chunk(t, chunkenc.EncXOR, nil, []int64{1000, 2000, 3000}, []float64{1, 2, 3})
			if i == 41 {
				data = data[:len(data)-4]
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, 1000, 3000, data))
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		discarded := 0
		sel.OnDiscard = func() { discarded++ }
		a := on(t, little)
		_, err = over(t, t.Context(), &a.Alone, sel, someHours+fields)
		var corrupt *selection.CorruptError
		require.ErrorAs(t, err, &corrupt, fields)
		require.Equal(t, "41", corrupt.Series.Get("i"))
		require.Positive(t, discarded)
	}
}
