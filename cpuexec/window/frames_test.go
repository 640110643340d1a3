package window

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// TestFramesAtOnce: goroutines that come to series with the same times, all at the same time, make
// one frame for each list of times, and find the windows that each series has by itself.
func TestFramesAtOnce(t *testing.T) {
	const targets, each, workers, samples, steps = 12, 3, 4, 300, 64
	vs := make([]float64, samples)
	var lists [][]int64
	for target := range targets {
		ts := make([]int64, samples)
		for k := range ts {
			ts[k], vs[k] = int64(k)*15_000+int64(target)*700+int64(k*7%5), float64(3*k)
		}
		lists = append(lists, slices.Repeat([][]int64{ts}, each)...)
	}
	sp := Span{Grid: plan.Grid{Start: 300_000, Interval: 60_000, Steps: steps}, Scan: &plan.Scan{}, Width: 300_000}
	all := packedColumns(t, lists, vs, samples-20) // what comes behind each column is the series' own
	for _, ts := range lists {
		all = append(all, column.NewSamples(ts, vs))
	}
	rate := Named("rate")
	want := make([]dense.Row, len(all))
	for i, in := range all {
		var c dense.Counts
		want[i] = dense.New(steps)
		evaluateAlone(t, sp, rate, in, want[i], &c)
		require.Equal(t, steps, c.Points)
	}
	for range 20 {
		frames := NewFrames(sp)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				w := &Evaluator{}
				<-start
				for i, in := range all {
					var c dense.Counts
					out := dense.New(steps)
					if err := w.Evaluate(frames, &Call{Func: Of(rate)}, in, out, &c); err != nil {
						t.Error(err)
					}
					for k, v := range out.Values {
						if math.Float64bits(v) != math.Float64bits(want[i].Values[k]) {
							t.Errorf("series %d, step %d: %v, not %v", i, k, v, want[i].Values[k])
						}
					}
				}
			})
		}
		close(start)
		wg.Wait()
		require.Len(t, frames.all, 2*targets)
		frames.Release()
	}
}
