package backfill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// result is what an expression came to. Rows with the same labels have no step in common.
type result struct {
	rows   []promql.Series
	failed []error // by step; nil where there is a value
	close  []func()
}

func (r *result) release() {
	for _, f := range r.close {
		f()
	}
}

// evaluate evaluates an expression for a rule.
func (b *backfill) evaluate(ctx context.Context, r *rule, text string, over evaluations) (res result, err error) {
	res.failed = make([]error, over.n)
	began := time.Now()
	if err = b.fill(ctx, r, text, over, res.failed, &res); err != nil {
		res.release()
		return res, err
	}
	if b.Share < 1 {
		err = sleep(ctx, time.Duration(float64(time.Since(began))*(1/b.Share-1)))
	}
	return res, err
}

// fill evaluates by a range query. Where that fails by what it evaluates, each half of the steps is
// evaluated, since a live rule fails at single steps alone.
func (b *backfill) fill(ctx context.Context, r *rule, text string, over evaluations, failed []error, res *result) error {
	q, rows, err := b.ask(ctx, r, text, over)
	switch {
	case err == nil:
		res.rows, res.close = append(res.rows, rows...), append(res.close, q.Close)
		return nil
	case ctx.Err() != nil || errors.As(err, new(promql.ErrStorage)):
		return err
	case over.n > 1:
		half := over
		half.n = over.n / 2
		rest := over.alone(half.n)
		rest.n = over.n - half.n
		if err := b.fill(ctx, r, text, half, failed[:half.n], res); err != nil {
			return err
		}
		return b.fill(ctx, r, text, rest, failed[half.n:], res)
	case errors.As(err, new(promql.ErrTooManySamples)) || errors.As(err, new(promql.ErrQueryTimeout)):
		return fmt.Errorf("%w; --query.max-samples and --query.timeout allow more", err)
	}
	failed[0] = err
	return nil
}

const (
	firstPause = time.Second      // before a failed fetch is tried again
	mostPause  = 16 * time.Second // of those, each twice as long as the one before
)

// ask asks the engine, and again where the upstream fails.
func (b *backfill) ask(ctx context.Context, r *rule, text string, over evaluations) (promql.Query, promql.Matrix, error) {
	source := selection.Source(b.Upstream)
	if r.recorded {
		v := view{store: b.store, reader: r}
		if r.steps {
			v.at = over.start + r.group.QueryOffset().Milliseconds()
		}
		source = fanout.New(nil, fanout.Upstream{Name: "recorded", Cache: v}, fanout.Upstream{Name: "upstream", Cache: b.Upstream})
	}
	start := timestamp.Time(over.start)
	request := engine.Request{
		Storage: selection.Storage{Source: source, Request: selection.Request{Whole: true}}, Query: text, Exact: plan.Bits,
		Start: start, End: start.Add(time.Duration(over.n-1) * r.group.Interval()), Step: r.group.Interval(),
	}
	for pause := b.pause; ; pause *= 2 {
		q, err := b.Engine.NewQuery(ctx, request)
		if err != nil {
			return nil, nil, err
		}
		res := q.Exec(ctx)
		if res.Err == nil {
			b.warn(r, text, res.Warnings)
			m, err := res.Matrix()
			return q, m, err
		}
		q.Close()
		if !errors.As(res.Err, new(promql.ErrStorage)) || pause > mostPause {
			return nil, nil, res.Err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, nil, err
		}
	}
}

// warn says what is to be known of a rule's results, each once.
func (b *backfill) warn(r *rule, text string, all annotations.Annotations) {
	warnings, _ := all.AsStrings(text, 0, 0)
	for _, w := range warnings {
		if line := fmt.Sprintf("%s: %s", r, w); !b.warned[line] {
			b.warned[line] = true
			b.Warn(line)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seriesState is a series that a rule recorded at its last evaluation.
type seriesState struct {
	Labels    labels.Labels `json:"labels"`
	Histogram bool          `json:"histogram,omitempty"`
}

var errDuplicate = errors.New("vector contains metrics with the same labelset after applying rule labels")

// output is a series that a rule records.
type output struct {
	promql.Series
	seen []bool // by step, where several rows have its labels
}

// outputs are the series of a recording rule by their key, with the steps that fail noted in res.
func (r *rule) outputs(over evaluations, res *result) map[string]*output {
	all := map[string]*output{}
	counts := make([]int, over.n)
	lb, buf := labels.NewBuilder(labels.EmptyLabels()), []byte(nil)
	for _, row := range res.rows {
		lb.Reset(row.Metric)
		lb.Set(labels.MetricName, r.name)
		r.labels.Range(func(l labels.Label) { lb.Set(l.Name, l.Value) })
		metric := lb.Labels()
		buf = metric.Bytes(buf)
		o := all[string(buf)]
		if o == nil {
			o = &output{Series: promql.Series{Metric: metric, Floats: row.Floats, Histograms: row.Histograms}}
			all[string(buf)] = o
		} else {
			if o.seen == nil {
				o.seen = make([]bool, over.n)
				over.each(o.Series, func(i int) { o.seen[i] = true })
			}
			over.each(row, func(i int) {
				if o.seen[i] {
					res.failed[i] = errDuplicate
				}
				o.seen[i] = true
			})
			o.Floats, o.Histograms = slices.Concat(o.Floats, row.Floats), slices.Concat(o.Histograms, row.Histograms)
			slices.SortFunc(o.Floats, func(a, b promql.FPoint) int { return int(a.T - b.T) })
			slices.SortFunc(o.Histograms, func(a, b promql.HPoint) int { return int(a.T - b.T) })
		}
		if limit := r.group.Limit(); limit > 0 {
			over.each(row, func(i int) {
				if counts[i]++; counts[i] > limit {
					res.failed[i] = fmt.Errorf("exceeded limit of %d", limit)
				}
			})
		}
	}
	return all
}

// each calls f with the step of each sample of a row.
func (e evaluations) each(row promql.Series, f func(i int)) {
	for _, p := range row.Floats {
		f(int((p.T - e.start) / e.step))
	}
	for _, p := range row.Histograms {
		f(int((p.T - e.start) / e.step))
	}
}

// record adds what a recording rule writes: its samples, and stale markers of series that have none
// at an evaluation and had one before. An evaluation that fails writes nothing, and forgets nothing.
func (r *rule) record(over evaluations, res *result, to *store) {
	all := r.outputs(over, res)
	for key, p := range r.previous {
		if all[key] == nil {
			all[key] = &output{Series: promql.Series{Metric: p.Labels}}
		}
	}
	r.fail(res.failed)
	for key, o := range all {
		was, there := r.previous[key]
		was.Labels = o.Metric
		out := promql.Series{Metric: o.Metric, Floats: make([]promql.FPoint, 0, len(o.Floats)+1)}
		f, h := o.Floats, o.Histograms
		for i := range over.n {
			t := over.start + int64(i)*over.step
			isFloat, isHistogram := len(f) > 0 && f[0].T == t, len(h) > 0 && h[0].T == t
			switch {
			case res.failed[i] != nil:
			case isFloat:
				out.Floats, there, was.Histogram = append(out.Floats, f[0]), true, false
			case isHistogram:
				out.Histograms, there, was.Histogram = append(out.Histograms, promql.HPoint{T: t, H: h[0].H.Copy()}), true, true
			case there && was.Histogram:
				out.Histograms, there = append(out.Histograms, promql.HPoint{T: t, H: &histogram.FloatHistogram{Sum: staleNaN}}), false
			case there:
				out.Floats, there = append(out.Floats, promql.FPoint{T: t, F: staleNaN}), false
			}
			for len(f) > 0 && f[0].T <= t { // several where the step fails
				f = f[1:]
			}
			for len(h) > 0 && h[0].T <= t {
				h = h[1:]
			}
		}
		if there {
			r.previous[key] = was
		} else {
			delete(r.previous, key)
		}
		if n := len(out.Floats) + len(out.Histograms); n > 0 {
			r.samples += int64(n)
			to.add(key, out)
		}
	}
}

var staleNaN = math.Float64frombits(value.StaleNaN)

// fail counts evaluations that failed.
func (r *rule) fail(failed []error) {
	for _, err := range failed {
		if err != nil {
			r.failed++
			if r.failure == nil {
				r.failure = err
			}
		}
	}
}

// alerting is an alerting rule alone in a group of Prometheus's, whose state machine is fed.
type alerting struct {
	group *rules.Group
	rule  *rules.AlertingRule
	query rules.QueryFunc
	to    *alertSamples
	quiet int64 // the latest end of a stretch at which no alert was pending or firing, ms
}

func newAlerting(r *rule, expr parser.Expr, from rulefmt.Rule, o *Options) *alerting {
	a := &alerting{to: &alertSamples{rule: r}}
	// Annotations are in no sample.
	a.rule = rules.NewAlertingRule(r.name, expr, time.Duration(from.For), time.Duration(from.KeepFiringFor), r.labels,
		labels.EmptyLabels(), labels.EmptyLabels(), "", true, promslog.NewNopLogger())
	offset := r.group.QueryOffset()
	a.group = rules.NewGroup(rules.GroupOptions{
		Name: r.group.Name(), File: r.group.File(), Interval: r.group.Interval(), Limit: r.group.Limit(), QueryOffset: &offset,
		Rules: []rules.Rule{a.rule},
		Opts: &rules.ManagerOptions{
			Appendable: a.to, NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(),
			QueryFunc: func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
				return a.query(ctx, text, at)
			},
		},
	})
	return a
}

// alert feeds the result of an alerting rule's expression to the rule, which writes to a store; nil
// drops what it writes.
func (b *backfill) alert(ctx context.Context, r *rule, over evaluations, res *result, to *store) (err error) {
	a := r.alert
	a.to.store = to
	next := slices.Clone(res.rows)
	for i := range over.n {
		one := over.alone(i)
		a.query = func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
			if text == r.text && timestamp.FromTime(at) == one.start {
				return vectorAt(next, one.start), res.failed[i]
			}
			// A label's template asks for more.
			asked := one
			asked.start = timestamp.FromTime(at)
			other, wrong := b.evaluate(ctx, r, text, asked)
			if wrong != nil {
				err = wrong
				return nil, err
			}
			defer other.release()
			return vectorAt(other.rows, asked.start), other.failed[0]
		}
		a.group.Eval(ctx, one.first)
		if err != nil {
			return err
		}
		r.fail([]error{a.rule.LastError()})
	}
	return ctx.Err()
}

// vectorAt are the samples of rows at a time, before which nothing more is asked for.
func vectorAt(rows []promql.Series, t int64) (v promql.Vector) {
	for i := range rows {
		row := &rows[i]
		switch {
		case len(row.Floats) > 0 && row.Floats[0].T == t:
			v = append(v, promql.Sample{Metric: row.Metric, T: t, F: row.Floats[0].F})
			row.Floats = row.Floats[1:]
		case len(row.Histograms) > 0 && row.Histograms[0].T == t:
			v = append(v, promql.Sample{Metric: row.Metric, T: t, H: row.Histograms[0].H})
			row.Histograms = row.Histograms[1:]
		}
	}
	return v
}

// isQuiet reports whether nothing of the past matters to the rule.
func (a *alerting) isQuiet() bool {
	return a.rule.LastError() == nil && len(a.rule.ActiveAlerts()) == 0
}

// noAppender stands for the methods of an appender that alerting rules do not call.
type noAppender struct{ storage.Appender }

// alertSamples takes what an alerting rule writes.
type alertSamples struct {
	noAppender
	rule  *rule
	store *store
}

// Appender implements storage.Appendable.
func (s *alertSamples) Appender(context.Context) storage.Appender { return s }

// SetOptions implements storage.Appender.
func (*alertSamples) SetOptions(*storage.AppendOptions) {}

// Commit implements storage.Appender.
func (*alertSamples) Commit() error { return nil }

// Append implements storage.Appender.
func (s *alertSamples) Append(_ storage.SeriesRef, l labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	if s.store != nil {
		s.rule.samples++
		s.store.add(string(l.Bytes(nil)), promql.Series{Metric: l, Floats: []promql.FPoint{{T: t, F: v}}})
	}
	return 0, nil
}
