package window

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// TestCountSamples: samples of each step are those in its window, and new those that no earlier
// step had, whether windows are alike for long or each is another, and however often frames are
// used.
func TestCountSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 26))
	changing := 0
	for range 300 {
		g := plan.Grid{Start: 1_000_000, Interval: []int64{1000, 15_000}[r.IntN(2)] * (1 + r.Int64N(20)), Steps: 1 + r.IntN(300)}
		sp := Span{Grid: g, Scan: &plan.Scan{}, Width: 1000 * (1 + r.Int64N(900)), instant: r.IntN(3) == 0}
		var counts StepCounts
		counts.reset(g.Steps)
		for range 1 + r.IntN(2) { // as in one query after another
			all, fresh := make([]int64, g.Steps), make([]int64, g.Steps)
			frames := NewFrames(sp)
			for range 1 + r.IntN(5) {
				jitter := int64(1)
				if r.IntN(3) == 0 {
					jitter = 14_000
				}
				var ts []int64
				for at := g.Start - 100_000*r.Int64N(20); at < g.At(g.Steps-1)+50_000; at += 15_000 {
					if ts = append(ts, at+r.Int64N(jitter)); r.IntN(40) == 0 {
						at += r.Int64N(600_000)
					}
				}
				fr := frames.add()
				fr.set(column.Times{Own: ts}, ts)
				fr.runs = []column.Runs{{}, column.Runs{}.Add(ts), column.Runs{Late: []uint16{}}.Add(ts)}[r.IntN(3)]
				fr.reset(sp)
				fr.noteChanges()
				used := r.Int64N(4)
				fr.used.Add(used)
				if len(fr.changes) > 0 {
					changing++
				}
				last := int32(0)
				for k, hi := range fr.hi {
					lo := fr.lo[k]
					all[k] += used * int64(hi-lo)
					if sp.instant {
						fresh[k] += used * int64(hi-lo)
						continue
					}
					for i := lo; i < hi; i++ {
						if i >= last {
							fresh[k] += used
						}
					}
					last = hi
				}
			}
			if r.IntN(2) == 0 {
				var other StepCounts
				other.reset(g.Steps)
				frames.CountSamples(&other)
				counts.Merge(&other)
			}
			frames.CountSamples(&counts) // what is left
			counts.Sum()
			require.Equal(t, all, counts.All)
			require.Equal(t, fresh, counts.Fresh)
			frames.Release()
			counts.reset(g.Steps)
			require.Equal(t, make([]int64, g.Steps), counts.All)
		}
	}
	require.Greater(t, changing, 100)
}

// TestCountSamplesAlone: series that share no frame are counted, one query after another, those
// that fail included.
func TestCountSamplesAlone(t *testing.T) {
	w := &Evaluator{}
	for i, instant := range []bool{true, false, true, true, false} {
		g := plan.Grid{Start: 1_000_000, Interval: 60_000, Steps: 100}
		sp := Span{Grid: g, Scan: &plan.Scan{}, Width: 300_000, instant: instant}
		f, each := Of(Named("sum_over_time")), int64(20)
		if instant {
			f, each = Of(Last), 1
		}
		w.Reset(g.Steps)
		frames := NewFrames(sp)
		frames.misses = 1000 // so that no more are looked for
		for target := range 3 {
			var ts []int64
			for at := int64(600_000 + 100*i + 10*target); at < 4_000_000; at += 15_000 {
				ts = append(ts, at)
			}
			var c dense.Counts
			in := column.NewSamples(ts, make([]float64, len(ts)))
			require.NoError(t, w.Evaluate(frames, &Call{Func: f}, in, dense.New(g.Steps), &c))
		}
		require.Empty(t, frames.all)
		if i == 2 {
			continue // as where the query fails
		}
		w.CountSamples()
		w.Steps.Sum()
		end := 0
		for k, n := range w.Steps.All {
			if g.At(k) <= 4_000_000 {
				require.Equal(t, 3*each, n, "step %d", k)
				end++
			}
		}
		require.Equal(t, 51, end)
		require.Zero(t, w.Steps.All[g.Steps-1])
	}
}

// TestNone: samples that turn out to be none are subtracted, however many they are.
func TestNone(t *testing.T) {
	var counts, other StepCounts
	for range 2 {
		counts.reset(3)
		other.reset(3)
		for range 4 {
			other.add([]change{{0, 1, 1}}, 2)
			other.none(1)
			other.none(2)
		}
		counts.Merge(&other)
		counts.Sum()
		require.True(t, counts.Counted)
		require.Equal(t, []int64{8, 4, 4}, counts.All)
		require.Equal(t, counts.All, counts.Fresh)
	}
}
