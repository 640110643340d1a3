package carbonara

import (
	"context"
	"math"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// float64s is how far promwarp's means, and sums of means beside the sum of their
// magnitudes, may be off.
const float64s = 1e-12

// promwarp measures promwarp's ways.
func (o Options) promwarp(ctx context.Context, c *Comparison, p *points, size int, x *gpuexec.Executor, cpu *cpuexec.Executor) error {
	sel, err := p.selection(size)
	if err != nil {
		return err
	}
	defer x.Forget(sel)
	for i := range sel.NumSeries() {
		for _, k := range sel.Chunks(i) {
			c.ChunkBytes += int64(k.Len)
		}
	}
	means, sum := job(p, sel, false), job(p, sel, true)
	m := &plan.Matrix{}
	defer func() { m.Release() }()
	device := func(j cpuexec.Job, hot bool) func() error {
		return func() error {
			if !hot {
				x.Forget(sel)
			}
			m.Release()
			got, err := x.Run(ctx, j)
			if err == nil {
				m = got
			}
			return err
		}
	}
	check := map[bool]func() (float64, error){
		false: func() (float64, error) { return worst(p, flat(p, m)) },
		true:  func() (float64, error) { return p.worstSum(flat(p, m), float64(size)) },
	}
	for _, w := range []struct {
		name   string
		summed bool
		f      func() error
	}{
		{Cores, false, func() (err error) {
			got, err := cpu.Run(ctx, means)
			if err == nil {
				m = got
			}
			return err
		}},
		{Summed, true, device(sum, false)},
		{SummedHot, true, device(sum, true)},
		{BySeries, false, device(means, false)},
		{BySeriesHot, false, device(means, true)},
	} {
		o.take(c, w.name, float64s, w.f, check[w.summed])
		m.Release()
	}
	if p.from == 5 {
		return o.resampled(ctx, c, p, size, sel, x)
	}
	return ctx.Err()
}

// job is `avg_over_time(points[…])` at the end of every mean, or the sum of that.
func job(p *points, sel *selection.Selection, summed bool) cpuexec.Job {
	width := int64(1000 * p.to)
	w := &plan.Window{Scan: &plan.Scan{Text: "points"}, Func: window.Named("avg_over_time"), Width: width, Text: "avg_over_time(points)"}
	var node plan.Node = w
	if summed {
		node = &plan.Aggregate{Func: aggregate.Named("sum"), Input: w, Text: "sum(avg_over_time(points))"}
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
