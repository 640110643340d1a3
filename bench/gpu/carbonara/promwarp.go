package carbonara

import (
	"context"
	"math"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// float64s is how far promwarp's means, and sums of means beside the sum of their
// magnitudes, may be off.
const float64s = 1e-12

// promwarp measures promwarp's ways.
func (k *kind) promwarp(ctx context.Context) {
	m := &plan.Matrix{}
	for _, w := range []struct {
		name                  string
		summed, onGPU, forget bool
	}{
		{Cores, false, false, false}, {Summed, true, true, true}, {SummedHot, true, true, false}, {BySeries, false, true, true}, {BySeriesHot, false, true, false},
	} {
		j := job(k.points, k.sel, w.summed)
		k.take(w.name, float64s, func() error {
			if w.forget {
				k.gpu.Forget(k.sel)
			}
			m.Release()
			run := k.cpu.Run
			if w.onGPU {
				run = k.gpu.Run
			}
			got, err := run(ctx, j)
			if err == nil {
				m = got
			}
			return err
		}, func() (float64, error) {
			if w.summed {
				return k.worstSum(flat(k.points, m), float64(k.size))
			}
			return worst(k.points, flat(k.points, m))
		})
		m.Release()
	}
}

// job is `avg_over_time(points[…])` at the end of every mean, or the sum of that.
func job(p *points, sel *selection.Selection, summed bool) cpuexec.Job {
	width := int64(1000 * p.to)
	w := &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "points"}}, Func: window.Named("avg_over_time"), Width: width, Origin: plan.Origin{Text: "avg_over_time(points)"}}
	var node plan.Node = w
	if summed {
		node = &plan.Aggregate{Func: aggregate.Named("sum"), Input: w, Origin: plan.Origin{Text: "sum(avg_over_time(points))"}}
	}
	return cpuexec.Job{
		Node: node, Grid: plan.Grid{Start: synthetic.Start + width, Interval: width, Steps: p.steps}, MaxSamples: math.MaxInt,
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	}
}

// flat are the values of a matrix, row by row, NaN where there is none.
func flat(p *points, m *plan.Matrix) []float64 {
	out := make([]float64, 0, len(m.Rows)*p.steps)
	for _, row := range m.Rows {
		at, vs := len(out), row.Values
		for range p.steps {
			out = append(out, math.NaN())
		}
		for _, r := range row.Runs {
			copy(out[at+int(r.First):], vs[:r.Len])
			vs = vs[r.Len:]
		}
	}
	return out
}
