// Package resampled measures resample requests as a whole, from the plan to the values in the
// host's memory, through promwarp's executor of them.
//
// The data are counters with a sample every 15 s. Each request is computed on the GPU with the
// chunks there already, on the GPU with the chunks in page-locked memory of the host, and on the
// same machine's cores; the values are compared bit by bit.
package resampled

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/bench/gpu/measure"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// Options say how much to measure. The requests are those whose names match.
type Options struct {
	GPUs    *placement.Placer
	Series  int
	Samples int // of each
	Names   *regexp.Regexp
	Rounds  int
	Budget  time.Duration // for the rounds of one figure
	Log     func(format string, args ...any)
}

const (
	eight = "count,sum,mean,min,max,std,first,last"
	order = "median,95pct"
)

// requests are what is asked. Where each series is answered most buckets are of an hour: more values
// would not all find page-locked memory that they may stay in.
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

// customs are custom aggregates of requests: one with a state as large as that of a mean, and one that
// reads times and the sample before.
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

// Row is how long one request takes, medians in ms.
type Row struct {
	Name     string `json:"name"`
	Fields   string `json:"fields"`
	Series   int    `json:"series"`
	Samples  int64  `json:"samples"`
	Bytes    int64  `json:"chunk_bytes"`
	Runs     int64  `json:"runs"`
	Values   int64  `json:"values"` // of the answer
	Declined string `json:"declined,omitempty"`

	Resident    float64 `json:"gpu_resident_ms,omitempty"`
	NotResident float64 `json:"gpu_not_resident_ms,omitempty"`
	Cores       float64 `json:"cores_ms"`
	LinkShare   float64 `json:"link_share,omitempty"` // of the bytes a second that the link copies, not resident

	ResidentStages    []resample.Stage `json:"resident_stages,omitempty"`     // of the last one
	NotResidentStages []resample.Stage `json:"not_resident_stages,omitempty"` // of the last one
	Failed            string           `json:"failed,omitempty"`
}

// Measure computes all requests. One that fails is noted in its row and in the error.
func Measure(ctx context.Context, o Options, save func([]Row)) error {
	sel, err := synthetic.Counters("m_total", o.Series, o.Samples)
	if err != nil {
		return err
	}
	var rows []Row
	var failed []error
	for _, r := range requests {
		if !o.Names.MatchString(r.name) {
			continue
		}
		row := Row{Name: r.name, Fields: r.fields}
		if err := o.measure(ctx, sel, &row); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.name, err))
			row.Failed = err.Error()
		}
		rows = append(rows, row)
		save(rows)
		o.Log("%+v", row)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

func (o Options) measure(ctx context.Context, sel *selection.Selection, row *Row) error {
	p, err := o.plan(row.Fields)
	if err != nil {
		return err
	}
	e := resample.New(resample.Options{Accelerator: o.GPUs})
	timed := func(choice resample.Choice, before func()) (*resample.Result, float64, error) {
		var last *resample.Result
		ms, err := measure.Median(o.Rounds, o.Budget, func() (err error) {
			before()
			if last != nil {
				last.Release()
			}
			asked := *p
			asked.Executor = choice
			last, err = e.Run(ctx, synthetic.Storage{Selection: sel}, &asked)
			return err
		})
		return last, ms, err
	}
	want, ms, err := timed(resample.ChooseCores, func() {})
	if err != nil {
		return err
	}
	defer want.Release()
	w := want.Work
	row.Cores, row.Series, row.Samples, row.Bytes, row.Runs, row.Values = ms, sel.NumSeries(), w.Samples, w.Bytes, w.Runs, w.Values
	if row.Declined = o.GPUs.SuitsResample(p); row.Declined != "" {
		return nil
	}
	got, ms, err := timed(resample.ChooseGPU, func() { o.GPUs.Forget(sel) })
	if err != nil {
		return err
	}
	row.NotResident, row.NotResidentStages = ms, got.Work.Stages
	row.LinkShare = float64(row.Bytes) / (ms / 1000) / o.GPUs.Constants().Link
	got.Release()
	if got, row.Resident, err = timed(resample.ChooseGPU, func() {}); err != nil {
		return err
	}
	defer got.Release()
	if row.ResidentStages = got.Work.Stages; got.Work.Executor != "gpu" {
		row.Declined, row.Resident, row.NotResident, row.LinkShare = got.Work.Reason, 0, 0, 0
	}
	return same(want, got)
}

// plan is a request over all samples.
func (o Options) plan(fields string) (*resample.Plan, error) {
	f, err := url.ParseQuery(fmt.Sprintf("%s&metric=m_total&start=%d&end=%d", fields, synthetic.Start/1000, (synthetic.Start+o.Samples*synthetic.Interval)/1000))
	if err != nil {
		return nil, err
	}
	known, err := custom.AddTo(aggregate.Library{}, customs)
	if err != nil {
		return nil, err
	}
	r, err := resample.Parse(f, time.Now(), resample.Known{Parser: parser.NewParser(parser.Options{}), Aggregates: known})
	if err != nil {
		return nil, err
	}
	return resample.NewPlan(r)
}

// same compares two results bit by bit.
func same(want, got *resample.Result) error {
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

// Table is the rows for reading.
func Table(rows []Row) measure.Table {
	t := measure.Table{
		Title: "Resample requests, ms from the plan to the values in the host's memory:",
		Head:  []string{"request", "series", "M samples", "M runs", "M values", "GPU, resident", "G samples/s", "GPU, not resident", "share of the link", "cores", "cores / resident"},
	}
	for _, r := range rows {
		rate, share := "", ""
		if r.Resident > 0 {
			rate, share = measure.Number(float64(r.Samples)/r.Resident/1e6), fmt.Sprintf("%.0f %%", 100*r.LinkShare)
		}
		name := r.Name
		if r.Declined != "" {
			name += " (on cores: " + r.Declined + ")"
		}
		millions := func(n int64) string { return measure.Number(float64(n) / 1e6) }
		t.Add(name, fmt.Sprint(r.Series), millions(r.Samples), millions(r.Runs), millions(r.Values), measure.Number(r.Resident), rate,
			measure.Number(r.NotResident), share, measure.Number(r.Cores), measure.Times(r.Cores, r.Resident))
	}
	return t
}
