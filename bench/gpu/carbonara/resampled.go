package carbonara

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/gpuexec/resampling"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection/synthetic"
)

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
	e := resample.New(resample.Options{Accelerator: &resampling.Alone{Machine: k.gpu.Machine}})
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
