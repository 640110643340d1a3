package gpuexec

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
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
		pinned.BufferValues + 1: "the values of a series, at all steps or buckets, need more page-locked memory than a buffer has",
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
type coresGoOn struct{ Alone }

func (a *coresGoOn) Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (offload.Outcome, error) {
	o, err := Evaluate(ctx, a.Machine, l, consume)
	if err != nil {
		u := &pipeline.Unsuited{}
		return offload.Outcome{Declined: err.Error(), WindowOnly: errors.As(err, &u) && u.WindowOnly}, nil
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
	job.Accelerator = &coresGoOn{Alone{Machine: x.Machine}}
	both := 0
	for _, call := range []string{"cuMemcpyDtoHAsync_v2", "cuEventSynchronize", "cuLaunchKernel"} {
		x.Store.Clear()
		before := h.Calls(call)
		got, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		require.Zero(t, got.Work.Samples)
		got.Release()
		calls := h.Calls(call) - before
		for nth := 1; nth < calls; nth += max(1, calls/15) {
			x.Store.Clear()
			h.Configure(fmt.Sprintf("%s:%d=999", call, nth))
			got, err := cpu.Run(t.Context(), job)
			require.NoError(t, err)
			same(t, want, got, true, fmt.Sprintf("%s %d of %d", call, nth, calls))
			require.Nil(t, got.Work.Device)
			require.Positive(t, got.Work.Samples, "%s %d of %d", call, nth, calls)
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
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[99], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
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
		job.Accelerator = &coresGoOn{Alone{Machine: x.Machine}}
		got, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		same(t, want, got, true, op)
		require.NotNil(t, got.Work.Device, op)
		require.Zero(t, got.Work.Samples, op)
	}
}

// free is how many buffers for rows wait to be lent.
func free(x *Executor) int {
	n, _, _ := x.Lender.Counts()
	return n
}

// bound is how many buffers for rows are free, or may still be taken.
func bound(x *Executor) int {
	free, left, _ := x.Lender.Counts()
	return free + left
}

// spoilStretches changes what is given back, for one test.
func spoilStretches(t *testing.T) {
	pinned.SpoilReturned = func(s *pinned.Buffer) {
		for k := range s {
			s[k] = math.Float64frombits(0xDEAD_BEEF_0BAD_CAFE)
		}
	}
	t.Cleanup(func() { pinned.SpoilReturned = nil })
}

// TestRowsStay: the rows of several jobs at once stay as they are until their matrices
// are released, whatever comes back after them, and the memory is lent again. Where it
// is all lent, rows come to other memory.
func TestRowsStay(t *testing.T) {
	spoilStretches(t)
	r := rand.New(rand.NewPCG(71, 72))
	cpu := cpuexec.New(cpuexec.Options{})
	x := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20, Rows: 12 * 8 * pinned.BufferValues})
	type query struct {
		job  cpuexec.Job
		want *plan.Matrix
	}
	var queries []query
	add := func(f string, width int64, grid plan.Grid, sel *selection.Selection) {
		job := jobOver(aggregation("sum", f, width, 0, nil, nil, false).Input, grid, sel)
		want, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		queries = append(queries, query{job, want})
	}
	for _, series := range []int{3, 300, 2000} {
		// Rows with values at all steps, at most, and at few.
		whole, err := synthetic.Counters("m_total", series, 600)
		require.NoError(t, err)
		add("max_over_time", 300_000, plan.Grid{Start: synthetic.Start + 60_000, Interval: 20_000, Steps: 400}, whole)
		add("rate", 20_000, plan.Grid{Start: synthetic.Start + 60_000, Interval: 20_000, Steps: 400}, whole)
		add("last_over_time", 8_000, plan.Grid{Start: synthetic.Start + 60_000, Interval: 20_000, Steps: 400}, whole)
		add("count_over_time", 60_000, plan.Grid{Start: 600_000, Interval: 20_000, Steps: 400}, randomSelection(t, r, series))
	}
	var wg sync.WaitGroup
	for k := range 3 {
		r := rand.New(rand.NewPCG(73, uint64(k)))
		wg.Go(func() {
			var held []query
			var got []*plan.Matrix
			for range 30 {
				q := queries[r.IntN(len(queries))]
				m, err := x.Run(t.Context(), q.job)
				if err != nil {
					t.Error(err)
					return
				}
				held, got = append(held, q), append(got, m)
				if len(got) > 2 {
					same(t, held[0].want, got[0], true, "long after")
					got[0].Release()
					held, got = held[1:], got[1:]
				}
			}
			for i := range got {
				same(t, held[i].want, got[i], true, "at last")
				got[i].Release()
			}
		})
	}
	wg.Wait()
	require.Positive(t, free(x))
	require.Equal(t, 12, bound(x), "everything was given back")
}

// TestRowsOfFewValues: rows that are mostly empty do not keep memory from others.
func TestRowsOfFewValues(t *testing.T) {
	spoilStretches(t)
	x := executor(t, Options{Memory: 96 << 20, Staging: 6 << 20})
	sel := randomSelection(t, rand.New(rand.NewPCG(74, 75)), 200)
	job := jobOver(aggregation("sum", "max_over_time", 15_000, 0, nil, nil, false).Input, plan.Grid{Start: 0, Interval: 15_000, Steps: 9000}, sel)
	want, err := cpuexec.New(cpuexec.Options{}).Run(t.Context(), job)
	require.NoError(t, err)
	got, err := x.Run(t.Context(), job)
	require.NoError(t, err)
	same(t, want, got, true, "few values")
	require.Less(t, got.Points(), int64(200*9000/2))
	made := free(x)
	require.Positive(t, made, "it was given back")
	got.Release()
	require.Equal(t, made, free(x))
}

// TestFewRowsBeside: where no page-locked memory is left, few values do not keep a buffer of the heap.
func TestFewRowsBeside(t *testing.T) {
	x := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20, Rows: -1})
	sel, err := synthetic.Counters("m_total", 20, 600)
	require.NoError(t, err)
	job := jobOver(aggregation("sum", "max_over_time", 300_000, 0, nil, nil, false).Input, plan.Grid{Start: synthetic.Start + 60_000, Interval: 20_000, Steps: 400}, sel)
	want, err := cpuexec.New(cpuexec.Options{}).Run(t.Context(), job)
	require.NoError(t, err)
	var held [10]*plan.Matrix
	before := heap()
	for k := range held {
		held[k], err = x.Run(t.Context(), job)
		require.NoError(t, err)
	}
	require.Less(t, heap()-before, len(held)*8*pinned.BufferValues/2)
	for _, got := range held {
		same(t, want, got, true, "beside")
		got.Release()
	}
}

// heap is how many bytes of the heap are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestRowsGivenBack: a query that fails gives back what it was lent.
func TestRowsGivenBack(t *testing.T) {
	x := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20})
	sel := randomSelection(t, rand.New(rand.NewPCG(76, 77)), 2000)
	job := jobOver(aggregation("sum", "last_over_time", 3_600_000, 0, nil, nil, false).Input, plan.Grid{Start: 600_000, Interval: 15_000, Steps: 300}, sel)
	m, err := x.Run(t.Context(), job)
	require.NoError(t, err)
	points := m.Points()
	m.Release()
	made := free(x)
	require.Greater(t, made, 2, "several batches")
	for _, most := range []int64{1, points / 2, points - 1} {
		job.MaxSamples = int(most)
		_, err := x.Run(t.Context(), job)
		require.ErrorContains(t, err, "query processing would load too many samples")
		require.Equal(t, made, free(x), "%d of %d", most, points)
	}
	job.MaxSamples, job.Budget = 0, &operator.Budget{Context: t.Context(), Max: 4 * points}
	var e *operator.MemoryError
	_, err = x.Run(t.Context(), job)
	require.ErrorAs(t, err, &e)
	require.Equal(t, made, free(x))
}

// TestOutcomeStays: an outcome belongs to the caller. It does not refer to the staging
// memory that its results came through, which later leaves have.
func TestOutcomeStays(t *testing.T) {
	x := executor(t, Options{Memory: 24 << 20, Staging: 1 << 20})
	sel := randomSelection(t, rand.New(rand.NewPCG(81, 82)), 300)
	for _, op := range []string{"sum", "topk", "quantile"} {
		node := aggregation(op, "max_over_time", 300_000, 0, nil, []string{"job"}, false)
		node.Input = &plan.Map{
			Func: vector.Named(">"), Args: []float64{0},
			Unary: plan.Unary{Input: node.Input, Origin: plan.Origin{Text: "max_over_time(m_total) > 0"}},
		}
		node.Param = map[string]float64{"topk": 3, "quantile": 0.5}[op]
		o, err := Evaluate(t.Context(), x.Machine, leafOf(t, t.Context(), jobOver(node, faultGrid, sel)), nil)
		require.NoError(t, err)
		require.Len(t, o.Results.Counts, 300)
		require.Len(t, o.Results.Kept[0], 300)
		require.NotEmpty(t, o.Results.Values)
		require.Len(t, o.Results.All, faultGrid.Steps)
		before := encoded(t, o)
		for _, of := range []pipeline.Workspaces{x.Small, x.Large} {
			for range cap(of) {
				w := <-of
				for _, slot := range w.Slots {
					for i := range slot.Staging {
						slot.Staging[i]++
					}
				}
				w.Leave()
			}
		}
		require.Equal(t, before, encoded(t, o), op)
	}
}

// encoded is the results of an outcome, with the bits of their values.
func encoded(t *testing.T, o pipeline.Outcome) []byte {
	var b bytes.Buffer
	require.NoError(t, gob.NewEncoder(&b).Encode(o.Results))
	return b.Bytes()
}

// TestRowsOnce: a leaf that is declined in its last batch is not begun again in the other workspace,
// since the rows of the batches before have been consumed.
func TestRowsOnce(t *testing.T) {
	b := selection.NewBuilder(0)
	for i := range 640 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%03d", i)))
		ts, vs := make([]int64, 100), make([]float64, 100)
		for k := range ts {
			ts[k], vs[k] = int64(k)*15_000, float64(k)
			if i == 639 {
				vs[k] = math.Copysign(0, float64(k%3-1))
			}
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[99], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	cpu := cpuexec.New(cpuexec.Options{})
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	x.GoodBatch = 1 << 18
	job := jobOver(aggregation("sum", "quantile_over_time", 300_000, 0, nil, nil, false).Input, plan.Grid{Start: 600_000, Interval: 60_000, Steps: 10}, sel)
	want, err := cpu.Run(t.Context(), job)
	require.NoError(t, err)
	a := &coresGoOn{Alone{Machine: x.Machine}}
	job.Accelerator = a
	got, err := cpu.Run(t.Context(), job)
	require.NoError(t, err)
	same(t, want, got, true, "declined in the last batch")
	require.Positive(t, got.Work.Samples)
	require.Less(t, got.Work.Samples, want.Work.Samples/2, "rows of the GPU were used")
}
