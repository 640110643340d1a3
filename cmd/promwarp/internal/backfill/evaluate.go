package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// result is what a rule's expression came to. Rows with the same labels have no step in common.
type result struct {
	rows    []row
	failed  []error        // by step; nil where there is a value
	queries []promql.Query // to be closed after the last use of rows
}

// row is a row of a result, less the points before the present step.
type row struct {
	promql.Series
	in *series // that a recording rule records of it
}

// fill evaluates a rule's expression by a range query. Where that fails by what it evaluates, each half
// of the steps is evaluated, since a live rule fails at single steps alone.
func (b *backfill) fill(ctx context.Context, r *rule, g plan.Grid, res *result) error {
	q, rows, err := b.ask(ctx, r, r.text, g)
	_, kind := promapi.Classify(err)
	switch half := g.Steps / 2; {
	case err == nil:
		res.queries, res.failed = append(res.queries, q), append(res.failed, make([]error, g.Steps)...)
		for _, s := range rows {
			res.rows = append(res.rows, row{Series: s})
		}
		return nil
	case ctx.Err() != nil || errors.As(err, new(fetchError)):
		return err
	case half > 0:
		if err := b.fill(ctx, r, plan.Grid{Start: g.Start, Interval: g.Interval, Steps: half}, res); err != nil {
			return err
		}
		return b.fill(ctx, r, plan.Grid{Start: g.At(half), Interval: g.Interval, Steps: g.Steps - half}, res)
	case kind != promapi.Execution || memory.Exhausted(err) || errors.As(err, new(*operator.MemoryError)) || errors.As(err, new(promql.ErrTooManySamples)):
		// promwarp failed, or does not allow more: a live rule may not have failed.
		return fmt.Errorf("%w; --query.max-samples, --query.timeout and --memory.limit allow more", err)
	}
	res.failed = append(res.failed, err)
	return nil
}

// A failed fetch is tried again after pauses, each twice as long as the one before. Tests shorten them.
var firstPause, mostPause = time.Second, 16 * time.Second

// ask asks the engine, and again where the upstream fails. It rests before as Share has it, and says each
// warning once.
func (b *backfill) ask(ctx context.Context, r *rule, text string, g plan.Grid) (promql.Query, promql.Matrix, error) {
	from := source{backfill: b, rule: r}
	if r.steps {
		from.at = g.Start + r.group.QueryOffset().Milliseconds()
	}
	request := engine.Request{
		Storage: selection.Storage{Source: from, Request: selection.Request{Whole: true}}, Query: text, Exact: plan.Bits,
		Start: timestamp.Time(g.Start), End: timestamp.Time(g.End()), Step: time.Duration(g.Interval) * time.Millisecond,
	}
	began := time.Now().Add(b.rest)
	defer func() { b.rest = time.Duration(float64(time.Since(began)) * (1/b.Share - 1)) }()
	for pause, rest := firstPause, b.rest; ; pause, rest = 2*pause, pause {
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		q, err := b.Engine.NewQuery(ctx, request)
		if err != nil {
			return nil, nil, err
		}
		res := q.Exec(ctx)
		if res.Err == nil {
			warnings, _ := res.Warnings.AsStrings(text, 0, 0)
			for _, w := range warnings {
				if line := fmt.Sprintf("%s: %s", r, w); !b.warned[line] {
					b.warned[line] = true
					b.Warn(line)
				}
			}
			m, err := res.Matrix()
			return q, m, err
		}
		q.Close()
		if !errors.As(res.Err, new(fetchError)) || pause > mostPause {
			return nil, nil, res.Err
		}
	}
}

// next is the row's sample at a time, if there is one. Times ascend from call to call.
func (r *row) next(t int64) (s promql.Sample, there bool) {
	switch {
	case len(r.Floats) > 0 && r.Floats[0].T == t:
		s, r.Floats = promql.Sample{Metric: r.Metric, T: t, F: r.Floats[0].F}, r.Floats[1:]
	case len(r.Histograms) > 0 && r.Histograms[0].T == t:
		s, r.Histograms = promql.Sample{Metric: r.Metric, T: t, H: r.Histograms[0].H}, r.Histograms[1:]
	default:
		return s, false
	}
	return s, true
}

// record adds what a rule writes to the stretch. As in Prometheus, an evaluation that fails writes
// nothing, and forgets no series.
func (b *backfill) record(ctx context.Context, r *rule, g plan.Grid, res *result) error {
	var all, in []*series // of the rule; of the samples of a step
	var key []byte
	find := func(l labels.Labels) *series {
		key = l.Bytes(key)
		s := b.series[string(key)]
		if s == nil {
			s = &series{Series: promql.Series{Metric: l}}
			b.series[string(key)] = s
		}
		if s.of != res {
			s.of, s.there, s.now = res, false, promql.Sample{}
			all = append(all, s)
		}
		return s
	}
	for _, p := range r.Previous {
		s := find(p.Labels)
		s.there, s.histogram = true, p.Histogram
	}
	for i := range res.rows {
		if row := &res.rows[i]; r.alert == nil {
			l := labels.NewBuilder(row.Metric).Set(model.MetricNameLabel, r.name)
			r.labels.Range(func(own labels.Label) { l.Set(own.Name, own.Value) })
			row.in = find(l.Labels())
		}
	}
	var v promql.Vector
	for k := range g.Steps {
		t, err := g.At(k), res.failed[k]
		v, in = v[:0], in[:0]
		for i := range res.rows {
			if sample, ok := res.rows[i].next(t); ok {
				v, in = append(v, sample), append(in, res.rows[i].in)
			}
		}
		if r.alert != nil {
			var refused error
			if v, err, refused = r.alerts(ctx, t, v, err); refused != nil {
				return refused
			}
			in = in[:0]
			for _, sample := range v {
				in = append(in, find(sample.Metric))
			}
		} else if limit := r.group.Limit(); limit > 0 && len(v) > limit {
			err = fmt.Errorf("exceeded limit of %d with %d series", limit, len(v))
		}
		for i, s := range in {
			if s.now.T == t {
				err = errors.New("vector contains metrics with the same labelset after applying rule labels")
			}
			s.now = v[i]
		}
		if err != nil {
			r.Failed++
			r.Failure = cmp.Or(r.Failure, err.Error())
			continue
		}
		for _, s := range all {
			s.write(t)
		}
	}
	r.Found = r.Found || len(all) > 0
	if r.alert != nil && len(r.alert.ActiveAlerts()) == 0 {
		r.Quiet = g.End() + 1
	}
	r.Previous = nil
	for _, s := range all {
		if s.there {
			r.Previous = append(r.Previous, previous{s.Metric, s.histogram})
		}
	}
	return ctx.Err()
}

// alerts has Prometheus's state machine of an alerting rule evaluate what its expression came to at a
// time. It returns the samples of alerts, or why the evaluation failed, or why it is refused.
func (r *rule) alerts(ctx context.Context, t int64, v promql.Vector, failed error) (samples promql.Vector, err, refused error) {
	query := func(_ context.Context, text string, _ time.Time) (promql.Vector, error) {
		if text != r.text {
			refused = fmt.Errorf("a template of its labels asks for %s, which is not evaluated: give a label without query", text)
			return nil, refused
		}
		return v, failed
	}
	offset := r.group.QueryOffset()
	samples, err = r.alert.Eval(ctx, offset, timestamp.Time(t).Add(offset), query, nil, r.group.Limit())
	return samples, err, refused
}
