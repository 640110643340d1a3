package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// shapes are shapes of queries. Each is measured as a whole, from the query's text to its
// answer in the host's memory, through promwarp's engine, over counters with a sample every 15 s,
// 512 kinds again and again. The cores decode the chunks each time. Over a slice of the series the
// answers of the GPU and of the cores are compared with those of Prometheus's engine, over all
// series those two with each other.
var shapes = []struct {
	name, query string
	metrics     []string // that it reads
	slice       int      // Prometheus's engine gets one in slice series
	step        int      // minutes, if it is not one
}{
	{"rate", `sum by (job) (rate(m_total[5m]))`, []string{counters}, 500, 0},
	{"rate every 5 m", `sum by (job) (rate(m_total[5m]))`, []string{counters}, 500, 5},
	{"rate every 30 m", `sum by (job) (rate(m_total[5m]))`, []string{counters}, 500, 30},
	{"histogram", `histogram_quantile(0.99, sum by (le, job) (rate(m_bucket[5m])))`, []string{buckets}, 500, 0},
	{"max", `max by (job) (max_over_time(m_total[5m]))`, []string{counters}, 500, 0},
	{"average", `avg by (job) (avg_over_time(m_total[5m]))`, []string{counters}, 500, 0},
	{"stddev over time", `avg by (job) (stddev_over_time(m_total[5m]))`, []string{counters}, 500, 0},
	{"deriv", `avg by (job) (deriv(m_total[5m]))`, []string{counters}, 500, 0},
	{"average of a day", `avg by (job) (avg_over_time(m_total[1d]))`, []string{counters}, 5000, 0},
	{"quantile", `max by (job) (quantile_over_time(0.9, m_total[5m]))`, []string{counters}, 500, 0},
	{"topk", `topk(10, rate(m_total[5m]))`, []string{counters}, 500, 0},
	{"stddev", `stddev by (job) (rate(m_total[5m]))`, []string{counters}, 500, 0},
	{"division", `sum by (job) (rate(e_total[5m])) / sum by (job) (rate(m_total[5m]))`, []string{failures, counters}, 500, 0},
	{"instant", `sum by (job) (m_total)`, []string{counters}, 500, 0},
	{"count", `count by (job) (m_total)`, []string{counters}, 500, 0},
}

// engines are what shapes are asked of.
type engines struct {
	*rig
	step  time.Duration // of queries
	stock *promql.Engine
	ours  *engine.Engine
	data  *data
}

// engines are Prometheus's engine and promwarp's, and data that is not made yet.
func (r *rig) engines() *engines {
	opts := promql.EngineOpts{
		MaxSamples: math.MaxInt, Timeout: time.Hour, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: parser.NewParser(parser.Options{}),
	}
	return &engines{
		rig: r, step: time.Minute, stock: promql.NewEngine(opts), ours: engine.New(engine.Options{Prometheus: opts, GPUs: r.gpus}),
		data: &data{samples: r.samples, made: map[key]*selection.Selection{}},
	}
}

func (e *engines) close() {
	_ = e.stock.Close()
	e.ours.Close()
}

// shapes asks all queries.
func (r *rig) shapes(ctx context.Context, save func([]Row)) error {
	e := r.engines()
	defer e.close()
	var rows []Row
	for _, s := range shapes {
		rows = append(rows, Row{Name: s.name, Query: s.query})
	}
	return r.each(ctx, rows, func(ctx context.Context, i int, row *Row) error {
		s := shapes[i]
		row.Step = s.step
		e.step = time.Duration(max(s.step, 1)) * time.Minute
		slice, err := e.data.metrics(s.metrics, max(r.series/s.slice/10, 1)*10) // whole histograms
		if err == nil {
			err = e.compare(ctx, row.Query, slice)
		}
		if err != nil {
			return err
		}
		all, err := e.data.metrics(s.metrics, r.series)
		if err != nil {
			return err
		}
		return e.measure(ctx, row, row.Query, all)
	}, save)
}

// maker makes queries of an engine.
type maker func(ctx context.Context, r engine.Request) (promql.Query, error)

// ask asks an engine.
func (e *engines) ask(ctx context.Context, of maker, query string, over synthetic.Metrics) compare.Answer {
	step := e.step.Milliseconds()
	last := synthetic.Start + int64(e.samples)*synthetic.Interval/step*step
	q, err := of(ctx, engine.Request{Storage: over, Query: query, Start: time.UnixMilli(synthetic.Start + step), End: time.UnixMilli(last), Step: e.step})
	if err != nil {
		return compare.Answer{Err: err}
	}
	defer q.Close()
	a := answerOf(q.Exec(ctx).Matrix())
	if _, ours := q.(*engine.Query); !ours { // Prometheus's engine will use the memory again
		for i := range a.Series {
			a.Series[i].Floats = slices.Clone(a.Series[i].Floats)
		}
	}
	return a
}

// answerOf is a matrix as an answer.
func answerOf(m promql.Matrix, err error) compare.Answer {
	a := compare.Answer{Type: parser.ValueTypeMatrix, Err: err}
	for _, s := range m {
		a.Series = append(a.Series, compare.Series{Labels: s.Metric, Floats: s.Floats})
	}
	a.Sort()
	return a
}

// on makes queries that run on the cores or on the GPU; it is an error if they do not.
func (e *engines) on(gpu bool) maker {
	return func(ctx context.Context, r engine.Request) (promql.Query, error) {
		r.Mode, r.Strict = engine.CPU, true
		if gpu {
			r.Mode = engine.GPU
		}
		return e.ours.NewQuery(ctx, r)
	}
}

// reference makes queries of Prometheus's engine.
func (e *engines) reference(ctx context.Context, r engine.Request) (promql.Query, error) {
	return r.By(ctx, e.stock)
}

// compare compares promwarp's answers over a slice of the series with that of Prometheus's engine.
func (e *engines) compare(ctx context.Context, query string, slice synthetic.Metrics) error {
	want := e.ask(ctx, e.reference, query, slice)
	if want.Err != nil {
		return fmt.Errorf("asking Prometheus's engine: %w", want.Err)
	}
	for _, gpu := range []bool{false, true} {
		if err := same(e.ask(ctx, e.on(gpu), query, slice), want); err != nil {
			return fmt.Errorf("on the GPU (%t), beside Prometheus's engine: %w", gpu, err)
		}
	}
	return nil
}

// same says where two answers differ.
func same(got, want compare.Answer) error {
	if d := compare.Differ(&want, &got, plan.Tolerance); d != nil {
		return errors.New(d.String())
	}
	return nil
}

func (e *engines) measure(ctx context.Context, row *Row, query string, all synthetic.Metrics) error {
	answers := map[bool]compare.Answer{}
	s := subject{slices.Collect(maps.Values(all)), func(gpu bool) error {
		answers[gpu] = e.ask(ctx, e.on(gpu), query, all)
		return answers[gpu].Err
	}}
	row.sizes(s.over)
	defer e.forget(s.over)
	if err := e.onCores(row, s); err != nil {
		return err
	}
	for _, series := range answers[false].Series {
		row.Values += int64(len(series.Floats))
	}
	if err := e.onGPU(row, s); err != nil {
		return err
	}
	return same(answers[true], answers[false])
}

// The metrics: requests, a tenth as many of errors, and as many buckets of classic
// histograms of ten.
const (
	counters = "m_total"
	failures = "e_total"
	buckets  = "m_bucket"
)

// data makes selections when they are first asked for, and holds them.
type data struct {
	samples int
	made    map[key]*selection.Selection
}

// key is a metric, and the series that there would be of m_total.
type key struct {
	metric string
	series int
}

// metrics are the selections that a query reads.
func (d *data) metrics(names []string, series int) (synthetic.Metrics, error) {
	all := synthetic.Metrics{}
	for _, name := range names {
		k := key{name, series}
		if d.made[k] == nil {
			var err error
			switch name {
			case buckets:
				d.made[k], err = histograms(max(series/len(les), 1), d.samples)
			case failures:
				d.made[k], err = synthetic.Counters(name, max(series/10, 1), d.samples)
			default:
				d.made[k], err = synthetic.Counters(name, series, d.samples)
			}
			if err != nil {
				return nil, err
			}
		}
		all[name] = d.made[k]
	}
	return all, nil
}

// les are the upper bounds of buckets as labels are sorted, and rank which of the
// bounds each is.
var (
	les  = []string{"+Inf", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5"}
	rank = []int{9, 0, 1, 2, 3, 4, 5, 6, 7, 8}
)

// histograms makes classic histograms in 20 jobs, of 51 kinds.
func histograms(count, samples int) (*selection.Selection, error) {
	return synthetic.Make(synthetic.Options{
		Series: count * len(les), Distinct: 51 * len(les),
		Labels: func(i int) labels.Labels {
			h := i / len(les)
			return labels.FromStrings("__name__", buckets, "instance", fmt.Sprintf("host-%06d", h), "job", "job-"+strconv.Itoa(h%20), "le", les[i%len(les)])
		},
		Samples: func(k int) ([]int64, []float64) {
			r := rand.New(rand.NewPCG(43, uint64(k/len(les))))
			offset, bound := r.Int64N(synthetic.Interval), rank[k%len(les)]
			ts, vs := make([]int64, samples), make([]float64, samples)
			count := 0.0
			for i := range ts {
				// This share of the new observations is in this bucket or one below it.
				fresh := math.Round(100 * r.ExpFloat64())
				count += math.Floor(fresh * math.Pow(float64(bound+1)/float64(len(les)), 1.5))
				ts[i], vs[i] = synthetic.Start+offset+int64(i)*synthetic.Interval, count
			}
			return ts, vs
		},
	})
}
