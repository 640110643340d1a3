// Package shapes measures ten shapes of queries as a whole, from the query's text to
// its answer in the host's memory, through promwarp's engine.
//
// The data are counters with a sample every 15 s, 512 kinds again and again. Each query
// is asked on the GPU with its chunks there already, on the GPU with its chunks in
// page-locked memory of the host, and on the same machine's cores from chunks.
// Prometheus's engine is asked in the same process over two slices of the series, and
// its time for all of them is taken to go on growing as it does from one slice to the
// other: such a figure is marked as scaled. Over the smaller slice its answer is
// compared with those of the GPU and the cores, over all series those two with each
// other.
package shapes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/bench/gpu/measure"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// Options say how much to measure. The shapes are those whose names match.
type Options struct {
	GPUs    *placement.Placer
	Series  int
	Samples int // of each
	Names   *regexp.Regexp
	Rounds  int
	Budget  time.Duration // for the rounds of one figure
	Log     func(format string, args ...any)
}

// shape is a query, the metrics that it reads, and one part in how many of the series
// Prometheus's engine gets; it gets twice as many, too.
type shape struct {
	name, query string
	metrics     []string
	slice       int
}

var shapes = []shape{
	{"rate", `sum by (job) (rate(m_total[5m]))`, []string{counters}, 500},
	{"histogram", `histogram_quantile(0.99, sum by (le, job) (rate(m_bucket[5m])))`, []string{buckets}, 500},
	{"max", `max by (job) (max_over_time(m_total[5m]))`, []string{counters}, 500},
	{"average of a day", `avg by (job) (avg_over_time(m_total[1d]))`, []string{counters}, 5000},
	{"quantile", `max by (job) (quantile_over_time(0.9, m_total[5m]))`, []string{counters}, 500},
	{"topk", `topk(10, rate(m_total[5m]))`, []string{counters}, 500},
	{"stddev", `stddev by (job) (rate(m_total[5m]))`, []string{counters}, 500},
	{"division", `sum by (job) (rate(e_total[5m])) / sum by (job) (rate(m_total[5m]))`, []string{failures, counters}, 500},
	{"instant", `sum by (job) (m_total)`, []string{counters}, 500},
	{"count", `count by (job) (m_total)`, []string{counters}, 500},
}

// bench is a run.
type bench struct {
	Options
	stock *promql.Engine
	ours  *engine.Engine
	data  *data
}

// Measure asks all queries. One that fails is noted in its row and in the error.
func Measure(ctx context.Context, o Options, save func([]Row)) error {
	opts := func() promql.EngineOpts {
		return promql.EngineOpts{
			MaxSamples: math.MaxInt, Timeout: time.Hour, EnableAtModifier: true, EnableNegativeOffset: true,
			Parser: parser.NewParser(parser.Options{}),
		}
	}
	b := &bench{
		Options: o,
		stock:   promql.NewEngine(opts()),
		ours:    engine.New(engine.Options{Prometheus: opts(), GPUs: o.GPUs}),
		data:    &data{samples: o.Samples, kept: map[key]*selection.Selection{}},
	}
	defer b.stock.Close()
	defer b.ours.Close()
	var rows []Row
	var failed []error
	for _, s := range shapes {
		if !o.Names.MatchString(s.name) {
			continue
		}
		row := &Row{Name: s.name, Query: s.query}
		if err := b.measure(ctx, s, row); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			row.Failed = err.Error()
		}
		rows = append(rows, *row)
		save(rows)
		o.Log("%+v", *row)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// ask asks an engine over so many series of each metric.
func (b *bench) ask(ctx context.Context, e promql.QueryEngine, s shape, series int) (promql.Matrix, error) {
	from, to := b.times()
	q, err := e.NewRangeQuery(ctx, named{b.data, series}, nil, s.query, from, to, time.Minute)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	m, err := q.Exec(ctx).Matrix()
	return clone(m), err
}

// times are those of the first and the last step.
func (b *bench) times() (from, to time.Time) {
	const step = 60_000
	steps := int64(b.Samples) * synthetic.Interval / step
	return time.UnixMilli(synthetic.Start + step), time.UnixMilli(synthetic.Start + steps*step)
}

func (b *bench) measure(ctx context.Context, s shape, row *Row) error {
	all, err := b.data.all(s.metrics, b.Series)
	if err != nil {
		return err
	}
	for _, sel := range all {
		row.Series += sel.NumSeries()
		row.Samples += sel.NumSamples()
		row.Bytes += chunkBytes(sel)
	}
	if err := b.compare(ctx, s, row); err != nil {
		return err
	}
	onGPU, onCores := engine.WithMode(ctx, engine.GPU, false), engine.WithMode(ctx, engine.CPU, false)
	var got, want promql.Matrix
	for _, f := range []struct {
		to     *float64
		answer *promql.Matrix
		ctx    context.Context
		forget bool
	}{{&row.Cores, &want, onCores, false}, {&row.NotResident, &got, onGPU, true}, {&row.Resident, &got, onGPU, false}} {
		ms, err := measure.Median(b.Rounds, b.Budget, func() (err error) {
			if f.forget {
				forget(b.GPUs, all)
			}
			*f.answer, err = b.ask(f.ctx, b.ours, s, b.Series)
			return err
		})
		if err != nil {
			return err
		}
		*f.to = ms
	}
	forget(b.GPUs, all)
	for _, series := range want {
		row.Points += len(series.Floats)
	}
	row.GPUFromCores, err = apart(want, got)
	return err
}

// compare asks Prometheus's engine, and promwarp's over the same slice.
func (b *bench) compare(ctx context.Context, s shape, row *Row) error {
	first := max(b.Series/s.slice/10, 1) * 10 // whole histograms
	var want promql.Matrix
	for _, series := range []int{2 * first, first} { // the last one's answer is compared
		all, err := b.data.all(s.metrics, series)
		if err != nil {
			return err
		}
		slice := Slice{}
		for _, sel := range all {
			slice.Series += sel.NumSeries()
		}
		slice.Ms, err = measure.Median(min(b.Rounds, 2), b.Budget, func() (err error) {
			want, err = b.ask(ctx, b.stock, s, series)
			return err
		})
		if err != nil {
			return fmt.Errorf("asking Prometheus's engine: %w", err)
		}
		row.Prometheus = append([]Slice{slice}, row.Prometheus...)
	}
	row.Scaled = scaled(row.Prometheus[0], row.Prometheus[1], row.Series)
	for mode, to := range map[engine.Mode]*float64{engine.GPU: &row.GPUFromPrometheus, engine.CPU: &row.CoresFromPrometheus} {
		got, err := b.ask(engine.WithMode(ctx, mode, false), b.ours, s, first)
		if err == nil {
			*to, err = apart(want, got)
		}
		if err != nil {
			return fmt.Errorf("on %s: %w", mode, err)
		}
	}
	return b.explain(engine.WithMode(ctx, engine.GPU, false), s, first, row)
}

// scaled is what Prometheus's engine would take for all series, if its time goes on
// growing as it does from a to b, or with the series where it does not grow.
func scaled(a, b Slice, series int) float64 {
	growth := (b.Ms - a.Ms) / float64(b.Series-a.Series)
	if growth <= 0 {
		growth = b.Ms / float64(b.Series)
	}
	return b.Ms + growth*float64(series-b.Series)
}

// explain notes which parts were on the GPU, and why others were not.
func (b *bench) explain(ctx context.Context, s shape, series int, row *Row) error {
	from, to := b.times()
	x, err := b.ours.Explain(ctx, named{b.data, series}, nil, s.query, from, to, time.Minute, true)
	if err != nil {
		return err
	}
	x.Root.Walk(func(d *plan.Decision) {
		switch {
		case d.Choice != nil && d.Choice.Stages != nil:
			row.OnGPU = append(row.OnGPU, Leaf{d.Expr, *d.Choice.Stages})
		case d.Executor != plan.OnGPU && strings.Contains(d.Reason, "GPU"):
			row.Left = append(row.Left, d.Expr+": "+d.Reason)
		}
	})
	return nil
}
