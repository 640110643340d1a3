package window

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/plan"
)

// TestLines: lines through windows that overlap little have the bits of the plain form, of series with
// the same times and with others, at even distances, late or with gaps, of values of all kinds.
func TestLines(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 1))
	compared, w := 0, &Evaluator{} // of one goroutine, which has had lines of other series
	for range 400 {
		var ts []int64
		at, late, gaps := 1_700_000_000_000+r.Int64N(60_000), r.IntN(2) == 0, r.IntN(2) == 0
		for range 2 + r.IntN(700) {
			if at += 15_000; gaps && r.IntN(100) == 0 {
				at += 15_000 * r.Int64N(30)
			}
			if ts = append(ts, at); late {
				ts[len(ts)-1] += r.Int64N(1501) - 750
			}
		}
		var all [][]float64
		for range 3 {
			vs, kind, spread := make([]float64, len(ts)), r.IntN(3), []float64{0, 0.01, 0.1, 10}[r.IntN(4)]
			scale, odd := math.Pow(10, float64(r.IntN(40)-20))*(1-2*float64(r.IntN(2))), r.IntN(4) == 0
			for k := range vs {
				switch vs[k] = 100 * (1 + spread*r.NormFloat64()); kind {
				case 0:
					vs[k] = math.Round(vs[k]) * 4096
				case 1:
					vs[k] = math.Round(vs[k]*100) / 100
				default:
					vs[k] *= scale
				}
				if odd && r.IntN(300) == 0 {
					vs[k] = exacttest.Odd(r)
				}
			}
			all = append(all, vs)
		}
		sp := frame.Span{
			Grid: plan.Grid{Start: ts[0] + r.Int64N(200_000) - 100_000, Interval: 60_000 * (1 + r.Int64N(5)), Steps: 2 + r.IntN(300)},
			Scan: &plan.Scan{Offset: []int64{0, 0, 90_000, -90_000}[r.IntN(4)]}, Width: []int64{300_000, 60_000, 420_000, 1_800_000}[r.IntN(4)],
		}
		if r.IntN(10) == 0 {
			sp.Scan.Fixed = &ts[len(ts)-1]
		}
		for _, name := range []string{"deriv", "predict_linear"} {
			frames := &frame.Frames{Span: sp}
			w.Reset()
			for i, in := range columns(t, [][]int64{ts, ts, ts}, all, len(ts), false) {
				call := &Call{Func: Of(Named(name)), Parameters: plan.Parameters{Param: float64(r.IntN(3) * 1000)}}
				got, c := dense.New(sp.Grid.Steps), dense.Counts{}
				require.NoError(t, w.Evaluate(frames, call, in, got, &c))
				fr := frames.Over(in.Times, &frame.Frame{})
				series := windowed{ts: ts, vs: all[i], b: fr.Bounds}
				if series.b.Overlap(regressionCost) {
					continue // which has not Prometheus's bits
				}
				want, call2 := dense.New(sp.Grid.Steps), *call
				plain := *call2.Func
				plain.Fast, call2.Func = nil, &plain
				require.NoError(t, (&Evaluator{}).Evaluate(frames, &call2, column.NewSamples(ts, all[i]), want, &c))
				require.Equal(t, want.Present, got.Present)
				for k, v := range want.Values {
					if want.Has(k, 1) {
						compared++
						exacttest.RequireSame(t, []float64{v}, []float64{got.Values[k]}, name)
					}
				}
			}
			frames.Release()
		}
	}
	require.Greater(t, compared, 50_000)
}
