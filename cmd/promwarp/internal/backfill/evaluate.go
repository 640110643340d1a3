package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
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

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// result is what an expression came to. Rows with the same labels have no step in common.
type result struct {
	rows   []promql.Series
	failed []error // by step; nil where there is a value
	close  []func()

	now promql.Vector // what at returns
	of  []int
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
	case ctx.Err() != nil || errors.As(err, new(fetchError)):
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
	case exceeds(err):
		return fmt.Errorf("%w; --query.max-samples, --query.timeout and --memory.limit allow more", err)
	}
	failed[0] = err
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

// ask asks the engine, and again where the upstream fails.
func (b *backfill) ask(ctx context.Context, r *rule, text string, over evaluations) (promql.Query, promql.Matrix, error) {
	from := source{store: b.store, upstream: b.Upstream, rule: r}
	if r.steps {
		from.at = over.start + r.group.QueryOffset().Milliseconds()
	}
	start := timestamp.Time(over.start)
	request := engine.Request{
		Storage: selection.Storage{Source: from, Request: selection.Request{Whole: true}}, Query: text, Exact: plan.Bits,
		Start: start, End: start.Add(time.Duration(over.n-1) * r.group.Interval()), Step: r.group.Interval(),
	}
	for pause := firstPause; ; pause *= 2 {
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
		if !errors.As(res.Err, new(fetchError)) || pause > mostPause {
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

// at are the samples of rows at a time, and which rows have them, until the next call. Times ascend from
// call to call.
func (r *result) at(t int64) (promql.Vector, []int) {
	r.now, r.of = r.now[:0], r.of[:0]
	for i := range r.rows {
		row := &r.rows[i]
		switch {
		case len(row.Floats) > 0 && row.Floats[0].T == t:
			r.now, r.of = append(r.now, promql.Sample{Metric: row.Metric, T: t, F: row.Floats[0].F}), append(r.of, i)
			row.Floats = row.Floats[1:]
		case len(row.Histograms) > 0 && row.Histograms[0].T == t:
			r.now, r.of = append(r.now, promql.Sample{Metric: row.Metric, T: t, H: row.Histograms[0].H}), append(r.of, i)
			row.Histograms = row.Histograms[1:]
		}
	}
	return r.now, r.of
}

// recording is a series that a rule records in a stretch.
type recording struct {
	seriesState
	promql.Series
	there bool           // at the last evaluation that did not fail
	now   promql.Sample  // the newest
	other *promql.Series // what rules before this one recorded; may be nil
}

// taken reports whether a rule before this one recorded another sample at the same time. Prometheus
// drops the newest sample then, and takes the series for one that the rule has not.
func (s *recording) taken() bool {
	if s.other == nil {
		return false
	}
	at := cut(s.other, s.now.T, s.now.T+1)
	switch {
	case len(at.Floats) > 0:
		return s.now.H != nil || math.Float64bits(at.Floats[0].F) != math.Float64bits(s.now.F)
	case len(at.Histograms) > 0:
		return s.now.H == nil || !at.Histograms[0].H.Equals(s.now.H)
	}
	return false
}

// write adds what the rule writes at a time: the sample that there is, or a stale marker behind one.
func (s *recording) write(t int64) {
	is := s.now.T == t && !s.taken()
	switch {
	case is && s.now.H != nil:
		s.Histograms = append(s.Histograms, promql.HPoint{T: t, H: s.now.H.Copy()})
		s.Histogram = true
	case is:
		s.Floats = append(s.Floats, promql.FPoint{T: t, F: s.now.F})
		s.Histogram = false
	case s.there && s.Histogram:
		s.Histograms = append(s.Histograms, promql.HPoint{T: t, H: &histogram.FloatHistogram{Sum: staleNaN}})
	case s.there:
		s.Floats = append(s.Floats, promql.FPoint{T: t, F: staleNaN})
	}
	s.there = is
}

var (
	staleNaN     = math.Float64frombits(value.StaleNaN)
	errDuplicate = errors.New("vector contains metrics with the same labelset after applying rule labels")
)

// record adds what a recording rule writes to a store. As in Prometheus, an evaluation that fails writes
// nothing, and forgets no series.
func (r *rule) record(over evaluations, res *result, to *store) {
	var all []*recording
	byKey := map[string]*recording{}
	find := func(l labels.Labels) *recording {
		key := string(l.Bytes(nil))
		s := byKey[key]
		if s == nil {
			s = &recording{seriesState: seriesState{Labels: l}, Series: promql.Series{Metric: l}, other: to.series[key]}
			all, byKey[key] = append(all, s), s
		}
		return s
	}
	for _, p := range r.Previous {
		s := find(p.Labels)
		s.there, s.Histogram = true, p.Histogram
	}
	rows := make([]*recording, len(res.rows))
	lb := labels.NewBuilder(labels.EmptyLabels())
	for i, row := range res.rows {
		lb.Reset(row.Metric)
		lb.Set(model.MetricNameLabel, r.name)
		r.labels.Range(func(l labels.Label) { lb.Set(l.Name, l.Value) })
		rows[i] = find(lb.Labels())
		rows[i].Floats = slices.Grow(rows[i].Floats, len(row.Floats)+1)
	}
	for i := range over.n {
		t, err := over.start+int64(i)*over.step, res.failed[i]
		v, of := res.at(t)
		if limit := r.group.Limit(); limit > 0 && len(v) > limit {
			err = fmt.Errorf("exceeded limit of %d with %d series", limit, len(v))
		}
		for k, row := range of {
			if rows[row].now.T == t {
				err = errDuplicate
			}
			rows[row].now = v[k]
		}
		if r.fail(err) {
			continue
		}
		for _, s := range all {
			s.write(t)
		}
	}
	r.Previous = nil
	for key, s := range byKey {
		if s.there {
			r.Previous = append(r.Previous, s.seriesState)
		}
		r.Samples += to.add(key, s.Series)
	}
}

// fail notes that an evaluation failed, if it did.
func (r *rule) fail(err error) bool {
	if err == nil {
		return false
	}
	r.Failed++
	r.Failure = cmp.Or(r.Failure, err.Error())
	return true
}

// alerting is an alerting rule alone in a group of Prometheus's, whose state machine is fed.
type alerting struct {
	group *rules.Group
	rule  *rules.AlertingRule
	query rules.QueryFunc
	to    *alertSamples
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
	for i := range over.n {
		one := over.alone(i)
		a.query = func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
			if text == r.text && timestamp.FromTime(at) == one.start {
				v, _ := res.at(one.start)
				return v, res.failed[i]
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
			v, _ := other.at(asked.start)
			return v, other.failed[0]
		}
		a.group.Eval(ctx, one.first)
		if err != nil {
			return err
		}
		r.fail(a.rule.LastError())
	}
	return ctx.Err()
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
	if s.store == nil {
		return 0, nil
	}
	key := string(l.Bytes(nil))
	if is := (&recording{now: promql.Sample{T: t, F: v}, other: s.store.series[key]}); is.taken() {
		return 0, storage.ErrDuplicateSampleForTimestamp
	}
	s.rule.Samples += s.store.add(key, promql.Series{Metric: l, Floats: []promql.FPoint{{T: t, F: v}}})
	return 0, nil
}
