package gpuexec

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

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
	job.MaxSamples, job.Budget = 0, operator.NewBudget(t.Context(), 4*points, nil)
	var e *operator.MemoryError
	_, err = x.Run(t.Context(), job)
	require.ErrorAs(t, err, &e)
	require.Equal(t, made, free(x))
}
