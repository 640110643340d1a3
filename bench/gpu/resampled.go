package main

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

const (
	eight = "count,sum,mean,min,max,std,first,last"
	order = "median,95pct"
)

// requests are resample requests over counters with a sample every 15 s. Each is measured as a
// whole, from the plan to the values in the host's memory, through promwarp's executor of them;
// the values on the GPU and on the cores are compared bit by bit. Where each series is answered
// most buckets are of an hour: more values would not all find page-locked memory that they may
// stay in.
var requests = []struct{ name, fields string }{
	{"one by job", "every=5m&by=job&aggregates=mean"},
	{"eight by job", "every=5m&by=job&aggregates=" + eight},
	{"eight, median and 95pct by job", "every=5m&by=job&aggregates=" + eight + "," + order},
	{"median and 95pct by job", "every=5m&by=job&aggregates=" + order},
	{"eight of all", "every=5m&by=&aggregates=" + eight},
	{"mean of maxima by job", "every=5m&by=job&aggregates=max&reaggregate=mean"},
	{"differences by job", "every=5m&by=job&aggregates=rate:sum,rate:max"},
	{"one of each", "every=1h&aggregates=mean"},
	{"eight of each", "every=1h&aggregates=" + eight},
	{"eight, median and 95pct of each", "every=1h&aggregates=" + eight + "," + order},
	{"eight of each, of 5 min", "every=5m&aggregates=" + eight},
	{"custom mean by job", "every=5m&by=job&aggregates=plain_mean"},
	{"mean and custom mean by job", "every=5m&by=job&aggregates=mean,plain_mean"},
	{"custom mean of each", "every=1h&aggregates=plain_mean"},
	{"custom steps by job, with times", "every=5m&by=job&aggregates=steps"},
	{"custom mean of maxima by job", "every=5m&by=job&aggregates=max&reaggregate=plain_mean"},
	{"median and 95pct of each, of 5 min", "every=5m&aggregates=" + order},
}

// customs are custom aggregates of requests: one with a state as large as that of a mean, and one
// that reads times and the sample before.
var customs = []custom.Source{
	{
		Name: "plain_mean", State: map[string]string{"sum": "0", "n": "0"}, Result: "sum / n",
		Add:   map[string]string{"sum": "sum + v", "n": "n + 1"},
		Merge: map[string]string{"sum": "a.sum + b.sum", "n": "a.n + b.n"},
	},
	{
		Name: "steps", State: map[string]string{"area": "0", "most": "-inf", "rose": "false"}, Result: "rose ? area / 1000 : most",
		Add:   map[string]string{"area": "area + (v + prev_v) / 2 * (t - prev_t)", "most": "max(most, abs(v - prev_v))", "rose": "rose || v > prev_v"},
		Merge: map[string]string{"area": "a.area + b.area", "most": "max(a.most, b.most)", "rose": "a.rose || b.rose"},
	},
}

// requests computes all requests.
func (r *rig) requests(ctx context.Context, save func([]Row)) error {
	sel, err := synthetic.Counters("m_total", r.series, r.samples)
	if err != nil {
		return err
	}
	var rows []Row
	for _, q := range requests {
		rows = append(rows, Row{Name: q.name, Fields: q.fields})
	}
	return r.each(ctx, rows, func(ctx context.Context, _ int, row *Row) error { return r.request(ctx, sel, row) }, save)
}

func (r *rig) request(ctx context.Context, sel *selection.Selection, row *Row) error {
	p, err := r.plan(row.Fields)
	if err != nil {
		return err
	}
	e := resample.New(resample.Options{Accelerator: r.gpus})
	last := map[bool]*resample.Result{}
	defer func() {
		for _, result := range last {
			result.Release()
		}
	}()
	s := subject{[]*selection.Selection{sel}, func(gpu bool) (err error) {
		if last[gpu] != nil {
			last[gpu].Release()
			delete(last, gpu)
		}
		asked := *p
		if asked.Executor = resample.ChooseCores; gpu {
			asked.Executor = resample.ChooseGPU
		}
		result, err := e.Run(ctx, selection.Single{Selection: sel}, &asked)
		if err == nil {
			last[gpu] = result
		}
		return err
	}}
	if err := r.onCores(row, s); err != nil {
		return err
	}
	row.sizes(s.over)
	row.Runs, row.Values = last[false].Work.Runs, last[false].Work.Values
	if row.Declined = r.gpus.Suits(&resample.Task{Plan: p}); row.Declined != "" {
		return nil
	}
	if err := r.onGPU(row, s); err != nil {
		return err
	}
	if got := last[true].Work; got.Executor != "gpu" {
		row.Declined, row.Resident, row.NotResident, row.LinkShare = got.Reason, 0, 0, 0
	}
	return sameBits(last[false], last[true])
}

// plan is a request over all samples.
func (r *rig) plan(fields string) (*resample.Plan, error) {
	f, err := url.ParseQuery(fmt.Sprintf("%s&metric=m_total&start=%d&end=%d", fields, synthetic.Start/1000, (synthetic.Start+r.samples*synthetic.Interval)/1000))
	if err != nil {
		return nil, err
	}
	known, err := custom.AddTo(aggregate.Library{}, customs)
	if err != nil {
		return nil, err
	}
	request, err := resample.Parse(f, time.Now(), resample.Known{Parser: parser.NewParser(parser.Options{}), Aggregates: known})
	if err != nil {
		return nil, err
	}
	return resample.NewPlan(request)
}

// sameBits compares two results bit by bit.
func sameBits(want, got *resample.Result) error {
	if len(want.Series) != len(got.Series) {
		return fmt.Errorf("%d series instead of %d", len(got.Series), len(want.Series))
	}
	for i, w := range want.Series {
		for a, row := range w.Rows {
			g := got.Series[i].Rows[a]
			if len(g.Values) != len(row.Values) {
				return fmt.Errorf("%s of %s: %d values instead of %d", want.Aggregates[a].Text, w.Labels, len(g.Values), len(row.Values))
			}
			for k, v := range row.Values {
				if math.Float64bits(v) != math.Float64bits(g.Values[k]) || row.Buckets[k] != g.Buckets[k] {
					return fmt.Errorf("%s of %s: %v instead of %v in bucket %d", want.Aggregates[a].Text, w.Labels, g.Values[k], v, row.Buckets[k])
				}
			}
		}
	}
	return nil
}
