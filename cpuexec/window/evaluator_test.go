package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/frame"
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
	sp := frame.Span{Grid: plan.Grid{Start: 300_000, Interval: 60_000, Steps: steps}, Scan: &plan.Scan{}, Width: 300_000}
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
		frames := &frame.Frames{Span: sp}
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
		made := map[*frame.Frame]bool{}
		for _, in := range all {
			made[frames.Over(in.Times, nil)] = true
		}
		require.Len(t, made, 2*targets)
		frames.Release()
	}
}

// TestCountSamples: samples of each step are those in the windows of all series, and new those that
// no earlier step had, whether series share their times or not. None are counted without being asked for.
func TestCountSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 26))
	for range 200 {
		g := plan.Grid{Start: 1_000_000, Interval: 1000 * (1 + r.Int64N(200)), Steps: 1 + r.IntN(300)}
		sp := frame.Span{Grid: g, Scan: &plan.Scan{}, Width: 1000 * (1 + r.Int64N(900)), Instant: r.IntN(3) == 0}
		f := Of(Named("sum_over_time"))
		if sp.Instant {
			f = Of(Last)
		}
		asked, want := &Evaluator{Counts: frame.NewStepCounts(g.Steps)}, frame.NewStepCounts(g.Steps)
		frames, silent := &frame.Frames{Span: sp}, &Evaluator{}
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
					if at > end || at <= end-sp.Width || sp.Instant && i+1 < len(ts) && ts[i+1] <= end {
						continue
					}
					want.All[k]++
					if sp.Instant || at > last {
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
