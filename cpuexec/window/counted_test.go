package window

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// TestCountSamples: samples of each step are those in the windows of all series, and new those that
// no earlier step had, whether series share their times or not. None are counted where nobody asks.
func TestCountSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 26))
	for range 200 {
		g := plan.Grid{Start: 1_000_000, Interval: 1000 * (1 + r.Int64N(200)), Steps: 1 + r.IntN(300)}
		sp := Span{Grid: g, Scan: &plan.Scan{}, Width: 1000 * (1 + r.Int64N(900)), instant: r.IntN(3) == 0}
		f := Of(Named("sum_over_time"))
		if sp.instant {
			f = Of(Last)
		}
		asked, want := &Evaluator{Counts: NewStepCounts(g.Steps)}, NewStepCounts(g.Steps)
		frames, silent := NewFrames(sp), &Evaluator{}
		for range 1 + r.IntN(4) {
			var ts []int64
			for at := g.Start - 100_000*r.Int64N(20); at < g.At(g.Steps-1)+50_000; at += 15_000 {
				if ts = append(ts, at+r.Int64N(14_000)); r.IntN(40) == 0 {
					at += r.Int64N(600_000)
				}
			}
			last := int64(-1) // the newest sample of an earlier step
			for k := range g.Steps {
				for i, at := range ts {
					end := g.At(k)
					if at > end || at <= end-sp.Width || sp.instant && i+1 < len(ts) && ts[i+1] <= end {
						continue
					}
					want.All[k]++
					if sp.instant || at > last {
						want.Fresh[k]++
					}
				}
				last = g.At(k)
			}
			in := column.NewSamples(ts, make([]float64, len(ts)))
			for _, e := range []*Evaluator{asked, silent} {
				var c dense.Counts
				require.NoError(t, e.Evaluate(frames, &Call{Func: f}, in, dense.New(g.Steps), &c))
			}
		}
		require.Nil(t, silent.Counts)
		require.Equal(t, want, asked.Counts)
		frames.Release()
	}
}

// TestNone: a sample that turns out to be none is subtracted, where somebody asks.
func TestNone(t *testing.T) {
	counts := NewStepCounts(3)
	counts.none(1)
	require.Equal(t, &StepCounts{[]int64{0, -1, 0}, []int64{0, -1, 0}}, counts)
	counts = nil
	counts.none(1)
}
