package carbonara

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
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
			if w.onGPU {
				j.Accelerator = &gpuexec.Alone{Machine: k.gpu}
			}
			got, err := k.cpu.Run(ctx, j)
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

// everyAggregate are the aggregates that GPUs make of one group of all series.
const everyAggregate = "mean,count,sum,min,max,range,std,var,first,last,time_weighted_mean"

// resampled measures promwarp's resample requests.
func (k *kind) resampled(ctx context.Context) error {
	bySeries, err := k.request("mean", "")
	if err != nil {
		return err
	}
	ofAll, err := k.request(everyAggregate, "&by=")
	if err != nil {
		return err
	}
	e := resample.New(resample.Options{Accelerator: &gpuexec.Alone{Machine: k.gpu}})
	last := &resample.Result{}
	defer func() { last.Release() }()
	for _, w := range []struct {
		name   string
		p      *resample.Plan
		forget bool
	}{{Grouped, ofAll, true}, {GroupedHot, ofAll, false}, {Resampled, bySeries, true}, {ResampledHot, bySeries, false}} {
		k.take(w.name, float64s, func() error {
			if w.forget {
				k.gpu.Forget(k.sel)
			}
			last.Release()
			last = &resample.Result{}
			got, err := e.Run(ctx, synthetic.Storage{Selection: k.sel}, w.p)
			if err == nil {
				last = got
			}
			return err
		}, func() (float64, error) {
			if w.p == ofAll {
				return k.worstSum(k.rows(last), float64(k.steps)/float64(len(k.mean)))
			}
			return worst(k.points, k.rows(last))
		})
	}
	return nil
}

// request is a resample request whose buckets are the points' means.
func (p *points) request(aggregates, more string) (*resample.Plan, error) {
	start := synthetic.Start / 1000
	f, err := url.ParseQuery(fmt.Sprintf("metric=points&start=%d&end=%d&origin=start&every=%d&closed=right&aggregates=%s%s",
		start, start+p.to*p.steps, p.to, aggregates, more))
	if err != nil {
		return nil, err
	}
	r, err := resample.Parse(f, time.Now(), resample.Known{Parser: parser.NewParser(parser.Options{})})
	if err != nil {
		return nil, err
	}
	r.Executor, r.Strict = resample.ChooseGPU, true
	return resample.NewPlan(r)
}

// rows are the first values of a result's series, row by row, NaN where there is none.
func (p *points) rows(r *resample.Result) (out []float64) {
	for i := range r.Series {
		at := len(out)
		for range p.steps {
			out = append(out, math.NaN())
		}
		row := &r.Series[i].Rows[0]
		for k, bucket := range row.Buckets {
			out[at+int(bucket)] = row.Values[k]
		}
	}
	return out
}

// worstSum is the largest error of what should be the sums of the means over all series, times a
// factor, beside the larger of 1 and the sum of the magnitudes.
func (p *points) worstSum(got []float64, times float64) (most float64, err error) {
	if len(got) != p.steps {
		return 0, fmt.Errorf("%d values of %d", len(got), p.steps)
	}
	for s, v := range got {
		want, magnitude := 0.0, 1.0
		for at := s; at < len(p.mean); at += p.steps {
			if m := p.mean[at]; !math.IsNaN(m) {
				want += times * m
				magnitude += times * math.Abs(m)
			}
		}
		most = max(most, math.Abs(v-want)/magnitude)
	}
	return most, nil
}
