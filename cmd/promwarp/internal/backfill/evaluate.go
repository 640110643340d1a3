package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// result is what a rule's expression came to. Rows with the same labels have no step in common.
type result struct {
	rows    []promql.Series
	failed  []error        // by step; nil where there is a value
	queries []promql.Query // to be closed after the last use of rows
	now     promql.Vector  // what at returns
}

// fill evaluates a rule's expression by a range query. Where that fails by what it evaluates, each half
// of the steps is evaluated, since a live rule fails at single steps alone.
func (b *backfill) fill(ctx context.Context, r *rule, g plan.Grid, res *result) error {
	q, rows, err := b.ask(ctx, r, r.text, g)
	switch half := g.Steps / 2; {
	case err == nil:
		res.rows, res.queries = append(res.rows, rows...), append(res.queries, q)
		res.failed = append(res.failed, make([]error, g.Steps)...)
		return nil
	case ctx.Err() != nil || errors.As(err, new(fetchError)):
		return err
	case half > 0:
		if err := b.fill(ctx, r, plan.Grid{Start: g.Start, Interval: g.Interval, Steps: half}, res); err != nil {
			return err
		}
		return b.fill(ctx, r, plan.Grid{Start: g.At(half), Interval: g.Interval, Steps: g.Steps - half}, res)
	case exceeds(err):
		return fmt.Errorf("%w; --query.max-samples, --query.timeout and --memory.limit allow more", err)
	}
	res.failed = append(res.failed, err)
	return nil
}

// exceeds reports whether an evaluation failed by what promwarp allows, or by promwarp itself, so that a
// live rule may not have failed.
func exceeds(err error) bool {
	return errors.As(err, new(promql.ErrTooManySamples)) || errors.As(err, new(promql.ErrQueryTimeout)) || errors.As(err, new(promql.ErrStorage)) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*operator.MemoryError)) || errors.As(err, new(*memory.BusyError)) ||
		errors.As(err, new(*memory.TooLargeError)) || errors.As(err, new(*planner.LimitError)) || errors.As(err, new(*parallel.Panic))
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

// at are the samples of rows at a time, until the next call. Times ascend from call to call.
func (r *result) at(t int64) promql.Vector {
	r.now = r.now[:0]
	for i := range r.rows {
		row := &r.rows[i]
		switch {
		case len(row.Floats) > 0 && row.Floats[0].T == t:
			r.now = append(r.now, promql.Sample{Metric: row.Metric, T: t, F: row.Floats[0].F})
			row.Floats = row.Floats[1:]
		case len(row.Histograms) > 0 && row.Histograms[0].T == t:
			r.now = append(r.now, promql.Sample{Metric: row.Metric, T: t, H: row.Histograms[0].H})
			row.Histograms = row.Histograms[1:]
		}
	}
	return r.now
}

// recording is a series that a rule records.
type recording struct {
	Labels    labels.Labels  `json:"labels"`
	Histogram bool           `json:"histogram,omitempty"` // its newest sample is one
	there     bool           // at the last evaluation that did not fail
	now       promql.Sample  // the newest result
	in        *promql.Series // what is recorded of it in the stretch
}

// write adds what the rule writes at a time: the sample that there is, or a stale marker behind one.
// Where a rule before this one recorded another sample, Prometheus takes the series for one that this
// rule has not.
func (s *recording) write(t int64) {
	is := s.now.T == t && add(s.in, s.now)
	switch {
	case is:
		s.Histogram = s.now.H != nil
	case s.there && s.Histogram:
		add(s.in, promql.Sample{T: t, H: &histogram.FloatHistogram{Sum: staleNaN}})
	case s.there:
		add(s.in, promql.Sample{T: t, F: staleNaN})
	}
	s.there = is
}

var staleNaN = math.Float64frombits(value.StaleNaN)

// record adds what a rule writes to series, by the bytes of their labels. As in Prometheus, an evaluation
// that fails writes nothing, and forgets no series.
func (r *rule) record(ctx context.Context, g plan.Grid, res *result, to map[string]*promql.Series) error {
	var all []*recording
	var key []byte
	byKey := map[string]*recording{}
	find := func(l labels.Labels) *recording {
		key = l.Bytes(key)
		s := byKey[string(key)]
		if s == nil {
			if to[string(key)] == nil {
				to[string(key)] = &promql.Series{Metric: l}
			}
			s = &recording{Labels: l, in: to[string(key)]}
			all, byKey[string(key)] = append(all, s), s
		}
		return s
	}
	for _, p := range r.Previous {
		s := find(p.Labels)
		s.there, s.Histogram = true, p.Histogram
	}
	if r.alert == nil {
		for i := range res.rows {
			b := labels.NewBuilder(res.rows[i].Metric).Set(model.MetricNameLabel, r.name)
			r.labels.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
			res.rows[i].Metric = b.Labels()
		}
	}
	for k := range g.Steps {
		t, err := g.At(k), res.failed[k]
		v := res.at(t)
		if r.alert != nil {
			var refused error
			if v, err, refused = r.alerts(ctx, t, v, err); refused != nil {
				return refused
			}
		} else if limit := r.group.Limit(); limit > 0 && len(v) > limit {
			err = fmt.Errorf("exceeded limit of %d with %d series", limit, len(v))
		}
		for _, sample := range v {
			s := find(sample.Metric)
			if s.now.T == t {
				err = errors.New("vector contains metrics with the same labelset after applying rule labels")
			}
			s.now = sample
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
			r.Previous = append(r.Previous, s)
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
