package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// Windows found by arithmetic are those found by looking at every sample.
func TestEvenRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := rapid.SliceOfN(rapid.Custom(drawRun), 1, 5).Draw(t, "runs")
		var all []int64
		at := int64(rapid.IntRange(-2000, 2000).Draw(t, "first"))
		for _, r := range ts {
			for _, d := range r {
				at += d
				all = append(all, at)
			}
		}
		cut := rapid.IntRange(0, len(all)-1).Draw(t, "cut")
		end := rapid.IntRange(cut, len(all)).Draw(t, "end")
		known, tail := all[:end], all[end:]
		even := column.Runs{}.Add(known)
		even.Even = even.Even.Cut(int32(cut), int32(end), nil)
		if rapid.Bool().Draw(t, "late") { // by less than 40 ms, and nobody overtakes another
			at := int32(0)
			for _, r := range even.Even {
				for ; at < r.To; at++ {
					i, most := cut+int(at), min(r.Every-1, 40)
					if i+1 < len(all) { // which is of another run, maybe
						most = min(most, all[i+1]-all[i]-1)
					}
					all[i] += rapid.Int64Range(0, most).Draw(t, "ms")
				}
			}
			even = column.Runs{Late: []uint16{}}.Add(all[cut:end])
		}
		even = even.Add(tail)
		all = all[cut:]
		requireRuns(t, all, even)
		if len(all) == 0 {
			return
		}
		s := Span{
			Grid: plan.Grid{
				Start:    all[0] + int64(rapid.IntRange(-500, 500).Draw(t, "start")),
				Interval: drawInterval(t),
				Steps:    rapid.IntRange(1, 200).Draw(t, "steps"),
			},
			Scan:    &plan.Scan{},
			Width:   int64(rapid.IntRange(1, 400).Draw(t, "width")),
			instant: rapid.Bool().Draw(t, "instant"),
		}
		anyOf := func() []uint64 { return make([]uint64, (s.Grid.Steps+63)/64) }
		var want, got bounds
		wantAny, gotAny := anyOf(), anyOf()
		wantCounts := want.find(timesOf(all, column.Runs{}), s, wantAny)
		gotCounts := got.find(timesOf(all, even), s, gotAny)
		require.Equal(t, wantAny, gotAny)
		require.Equal(t, wantCounts, gotCounts)
		require.Equal(t, want.total, got.total)
		rest, next := even.Even, got.from
		for k := got.from; k < got.to; k++ {
			if k == next {
				next += got.alike(k, &rest, s.Grid.Interval)
				continue
			}
			lo, hi, end := got.lo[k], got.hi[k], s.Grid.At(k)
			lo0, hi0, end0 := got.lo[k-1], got.hi[k-1], s.Grid.At(k-1)
			if require.Equal(t, hi0-lo0, hi-lo, "step %d", k); lo < hi {
				require.Equal(t, all[lo0]-end0, all[lo]-end, "step %d", k)
				require.Equal(t, all[hi0-1]-end0, all[hi-1]-end, "step %d", k)
			}
		}
		for k := range want.lo {
			end := s.Grid.At(k)
			hi := countNotAfter(all, end)
			require.Equal(t, hi, want.hi[k])
			require.Equal(t, hi, got.hi[k])
			lo := countNotAfter(all, end-s.Width)
			if s.instant {
				lo = max(lo, hi-1)
			}
			require.Equal(t, lo, want.lo[k])
			require.Equal(t, lo, got.lo[k])
		}
		for i := range all {
			require.Equal(t, all[i], timesOf(all, even).at(i))
		}
		for _, before := range []int32{0, 1} {
			since := make([]float64, len(got.hi))
			even.Since(got.hi, before, s.Grid.Start, s.Grid.Interval, since)
			for k, i := range got.hi {
				if i -= before; i >= 0 && int(i) < len(all) {
					require.Equal(t, float64(all[i]-s.Grid.At(k)), since[k])
				}
			}
		}
	})
}

// timesOf are times that runs are those of, if there are any.
func timesOf(ts []int64, runs column.Runs) *times {
	t := &times{}
	t.set(column.Times{Own: ts}, ts)
	t.runs = runs
	return t
}

func drawRun(t *rapid.T) []int64 {
	n, every := rapid.IntRange(1, 80).Draw(t, "samples"), int64(rapid.IntRange(1, 40).Draw(t, "every"))
	return slices.Repeat([]int64{every}, n)
}

// requireRuns checks that runs, without gaps between them, are those of ts.
func requireRuns(t require.TestingT, ts []int64, runs column.Runs) {
	at := int32(0)
	for k, r := range runs.Even {
		require.Equal(t, at, r.From)
		require.Less(t, r.From, r.To)
		for ; at < r.To; at++ {
			require.Equal(t, ts[at], runs.At(k, at))
		}
	}
	require.Len(t, ts, int(at))
}

func countNotAfter(ts []int64, t int64) int32 {
	n := int32(0)
	for n < int32(len(ts)) && ts[n] <= t {
		n++
	}
	return n
}

// drawInterval draws a distance of steps: any, or one that many distances of samples
// are a divisor of.
func drawInterval(t *rapid.T) int64 {
	if rapid.Bool().Draw(t, "divisible") {
		return 60
	}
	return int64(rapid.IntRange(1, 90).Draw(t, "interval"))
}

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
