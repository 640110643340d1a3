package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// TestRowsThatDoNotFit: more steps than page-locked memory is for, that of the values or of what is
// copied back with those of 32 series.
func TestRowsThatDoNotFit(t *testing.T) {
	x := executor(t, Options{Memory: 96 << 20, Staging: 64 << 10})
	sel := randomSelection(t, rand.New(rand.NewPCG(1, 2)), 3)
	w := aggregation("sum", "rate", 300_000, 0, nil, nil, false).Input
	for steps, reason := range map[int]string{
		1000: "", 4000: "32 series alone need more memory than the executor has on the device",
		pinned.BufferValues + 1: "the values of a series, at all steps, need more page-locked memory than a buffer has",
	} {
		_, err := x.Run(t.Context(), jobOver(w, plan.Grid{Interval: 1000, Steps: steps}, sel))
		if reason == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, "not on the GPU: "+reason)
	}
}

// coresGoOn declines a leaf where the device fails.
type coresGoOn struct{ alone }

func (a *coresGoOn) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error) (cpuexec.Outcome, error) {
	o, err := a.x.Evaluate(ctx, l, consume)
	if err != nil {
		u := &Unsuited{}
		return cpuexec.Outcome{Declined: err.Error(), WindowOnly: errors.As(err, &u) && u.WindowOnly}, nil
	}
	return o.Outcome, nil
}

// TestRowsFromBoth: whenever the device fails while rows are copied back, the cores go on behind
// the last batch that came.
func TestRowsFromBoth(t *testing.T) {
	h := cudatest.Control(t)
	w := aggregation("sum", "max_over_time", 300_000, 0, nil, nil, false).Input
	few := &plan.Aggregate{Func: aggregate.Named("limitk"), Param: 3, Grouping: []string{"job"}, Input: w, Origin: plan.Origin{Text: "limitk"}}
	jobs := map[string]cpuexec.Job{
		"few": jobOver(few, plan.Grid{Start: 600_000, Interval: 60_000, Steps: 70}, randomSelection(t, rand.New(rand.NewPCG(65, 66)), 700)),
	}
	sel, err := synthetic.Counters("m_total", 700, 300)
	require.NoError(t, err)
	jobs["whole"] = jobOver(w, plan.Grid{Start: synthetic.Start + 60_000, Interval: 60_000, Steps: 70}, sel)
	// To page-locked memory, or for all or some of them none is left.
	for _, most := range []int64{0, -1, 2 * 8 * pinned.BufferValues} {
		for name, job := range jobs {
			t.Run(fmt.Sprintf("%s/%d", name, most), func(t *testing.T) { rowsFromBoth(t, h, job, most) })
		}
	}
}

func rowsFromBoth(t *testing.T, h *cudatest.Host, job cpuexec.Job, most int64) {
	spoilStretches(t)
	cpu := cpuexec.New(cpuexec.Options{})
	x := executor(t, Options{Memory: 64 << 20, Staging: 200 << 10, Rows: most})
	all := bound(x)
	want, err := cpu.Run(t.Context(), job)
	require.NoError(t, err)
	job.Accelerator = &coresGoOn{alone{x: x, stages: &pipeline.Stages{}}}
	both := 0
	for _, call := range []string{"cuMemcpyDtoHAsync_v2", "cuEventSynchronize", "cuLaunchKernel"} {
		before := h.Calls(call)
		got, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		require.Zero(t, got.Work.Samples)
		got.Release()
		calls := h.Calls(call) - before
		for nth := 1; nth <= calls; nth += max(1, calls/15) {
			h.Configure(fmt.Sprintf("%s:%d=999", call, nth))
			got, err := cpu.Run(t.Context(), job)
			require.NoError(t, err)
			same(t, want, got, true, fmt.Sprintf("%s %d of %d", call, nth, calls))
			require.Nil(t, got.Work.Device)
			require.Positive(t, got.Work.Samples)
			if got.Work.Samples < want.Work.Samples {
				both++
			}
			got.Release()
			_, _, stuck := x.Lender.Counts()
			require.Zero(t, stuck)
		}
	}
	require.Greater(t, both, 10)
	require.Equal(t, all, bound(x), "everything was given back")
}

// TestWindowOnly: where an aggregation needs more memory than there is, its window
// is computed nevertheless.
func TestWindowOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(67, 68))
	b := selection.NewBuilder(0)
	for i := range 300 {
		b.Series(labels.FromStrings("instance", fmt.Sprintf("%03d", i)))
		ts, vs := make([]int64, 100), make([]float64, 100)
		for k := range ts {
			ts[k], vs[k] = int64(k)*15_000, r.Float64()
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[99], encode(t, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	cpu := cpuexec.New(cpuexec.Options{})
	x := executor(t, Options{Memory: 20 << 20, Staging: 2 << 20})
	grid := plan.Grid{Start: 600_000, Interval: 1000, Steps: 2400}
	for _, op := range []string{"sum", "quantile", "topk"} {
		node := aggregation(op, "last_over_time", 300_000, 0, nil, []string{"instance"}, false)
		node.Param = 1
		job := jobOver(node, grid, sel)
		want, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		job.Accelerator = &coresGoOn{alone{x: x, stages: &pipeline.Stages{}}}
		got, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		same(t, want, got, true, op)
		require.NotNil(t, got.Work.Device, op)
		require.Zero(t, got.Work.Samples, op)
	}
}
