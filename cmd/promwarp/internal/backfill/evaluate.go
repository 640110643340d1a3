package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// result is what a rule's expression came to. Rows with the same labels have no step in common.
type result struct {
	rows    []promql.Series
	failed  []error        // by step; nil where there is a value
	queries []promql.Query // to be closed after the last use of rows
}

// fill evaluates a rule's expression by a range query. Where that fails by what it evaluates, each half
// of the steps is evaluated, since a live rule fails at single steps alone.
func (b *backfill) fill(ctx context.Context, r *rule, g plan.Grid, res *result) error {
	q, rows, err := b.ask(ctx, r, r.text, g)
	_, kind := promapi.Classify(err)
	switch half := g.Steps / 2; {
	case err == nil:
		res.queries, res.rows, res.failed = append(res.queries, q), append(res.rows, rows...), append(res.failed, make([]error, g.Steps)...)
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
		from.at = g.Start + r.offset()
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

// next cuts the sample at a time, if there is one, off a row. Times ascend from call to call.
func next(r *promql.Series, t int64) (s promql.Sample, there bool) {
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
			s = &series{Labels: l}
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
		s.there, s.Histogram = true, p.Histogram
	}
	ofRows := make([]*series, len(res.rows)) // of a recording rule
	for i, row := range res.rows {
		if r.alert == nil {
			l := labels.NewBuilder(row.Metric).Set(model.MetricNameLabel, r.name)
			r.labels.Range(func(own labels.Label) { l.Set(own.Name, own.Value) })
			ofRows[i] = find(l.Labels())
			ofRows[i].floats = slices.Grow(ofRows[i].floats, len(row.Floats))
		}
	}
	var v promql.Vector
	for k := range g.Steps {
		t, err := g.At(k), res.failed[k]
		v, in = v[:0], in[:0]
		for i := range res.rows {
			if sample, ok := next(&res.rows[i], t); ok {
				v, in = append(v, sample), append(in, ofRows[i])
			}
		}
		if r.alert != nil {
			// Prometheus's state machine takes what the expression came to.
			var refused error
			now := timestamp.Time(t + r.offset())
			v, err = r.alert.Eval(ctx, r.group.QueryOffset(), now, func(_ context.Context, text string, _ time.Time) (promql.Vector, error) {
				if text != r.text {
					refused = fmt.Errorf("a template of its labels asks for %s, which is not evaluated: give a label without query", text)
				}
				return v, cmp.Or(refused, err)
			}, nil, r.group.Limit())
			if refused != nil {
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
			r.Previous = append(r.Previous, &series{Labels: s.Labels, Histogram: s.Histogram})
		}
	}
	return ctx.Err()
}

// series is what the stretch has of a recorded series, and how far the rule is that records it now.
type series struct {
	Labels     labels.Labels `json:"labels"`
	Histogram  bool          `json:"histogram,omitempty"` // its newest sample is one
	floats     []promql.FPoint
	histograms []promql.HPoint
	of         *result       // of the rule
	there      bool          // at the last evaluation that did not fail
	now        promql.Sample // the newest result
}

// write adds what the rule writes at a time: the sample that there is, or a stale marker behind one.
// Where a rule before this one recorded another sample, Prometheus takes the series for one that this
// rule has not.
func (s *series) write(t int64) {
	is := s.now.T == t && s.add(s.now)
	switch {
	case is:
		s.Histogram = s.now.H != nil
	case s.there && s.Histogram:
		s.add(promql.Sample{T: t, H: &histogram.FloatHistogram{Sum: staleNaN}})
	case s.there:
		s.add(promql.Sample{T: t, F: staleNaN})
	}
	s.there = is
}

var staleNaN = math.Float64frombits(value.StaleNaN)

// add adds a sample, and reports whether the series has it then. A sample that another rule recorded at
// that time stays, as in Prometheus.
func (s *series) add(p promql.Sample) bool {
	i, k := s.position(p.T)
	switch {
	case i < len(s.floats) && s.floats[i].T == p.T:
		return p.H == nil && math.Float64bits(p.F) == math.Float64bits(s.floats[i].F)
	case k < len(s.histograms) && s.histograms[k].T == p.T:
		return p.H != nil && p.H.Equals(s.histograms[k].H)
	case p.H != nil:
		s.histograms = slices.Insert(s.histograms, k, promql.HPoint{T: p.T, H: p.H.Copy()})
	default:
		s.floats = slices.Insert(s.floats, i, promql.FPoint{T: p.T, F: p.F})
	}
	return true
}

// position is the index of the first point of each kind at a time or after it.
func (s *series) position(t int64) (float, histogram int) {
	if float = len(s.floats); float > 0 && s.floats[float-1].T >= t {
		float = sort.Search(float, func(i int) bool { return s.floats[i].T >= t })
	}
	return float, sort.Search(len(s.histograms), func(i int) bool { return s.histograms[i].T >= t })
}

// cut is the part of the series in [mint, maxt), in ms, and nil where it has none.
func (s *series) cut(mint, maxt int64) storage.Series {
	i, k := s.position(mint)
	iEnd, kEnd := s.position(maxt)
	if i == iEnd && k == kEnd {
		return nil
	}
	return promql.NewStorageSeries(promql.Series{Metric: s.Labels, Floats: s.floats[i:iEnd], Histograms: s.histograms[k:kEnd]})
}

// source is what a rule reads: the upstream, and what is recorded. Its errors are fetchErrors.
type source struct {
	*backfill
	rule *rule
	at   int64 // of a single evaluation: what is recorded after it is not seen; else 0
}

// fetchError is that samples could not be read, which is no failure of a rule.
type fetchError struct{ error }

func (e fetchError) Unwrap() error { return e.error }

// Open implements selection.Source.
func (s source) Open(r selection.Request, mint, maxt int64) selection.Reader {
	return &reader{s.Upstream.Open(r, mint, maxt), s, mint, maxt}
}

// reader reads for one query.
type reader struct {
	selection.Reader
	source
	mint, maxt int64
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	mint, maxt := selection.Bounds(hints, r.mint, r.maxt)
	return r.BeginChunks([]selection.Ask{{Ctx: ctx, MinT: mint, MaxT: maxt, Matchers: matchers, Hints: func() storage.SelectHints {
		return *cmp.Or(hints, &storage.SelectHints{})
	}}})[0](ctx)
}

// BeginChunks implements selection.Beginner.
func (r *reader) BeginChunks(asks []selection.Ask) []selection.Get {
	asks = slices.Clone(asks)
	for i := range asks {
		// Recorded samples belong to no part. What is decoded of a part would be decoded again for the next rule.
		asks[i].Came = nil
	}
	gets := r.Reader.BeginChunks(asks)
	for i, get := range gets {
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			sel, ws, err := get(ctx)
			if err == nil && r.rule.recorded {
				sel, err = r.withRecorded(ctx, sel, asks[i])
			}
			if err != nil {
				return nil, ws, fetchError{err}
			}
			return sel, ws, nil
		}
	}
	return gets
}

// withRecorded adds what is recorded to what the upstream has. Of two samples at one time the recorded
// one stays.
func (s *source) withRecorded(ctx context.Context, upstream *selection.Selection, ask selection.Ask) (*selection.Selection, error) {
	var parts []*selection.Selection
	for _, r := range s.rules {
		until := ask.MaxT
		if s.at != 0 {
			until = min(until, s.at-r.delay(s.rule))
		}
		for _, known := range r.writes {
			if until < ask.MinT || !mayMatch(known, ask.Matchers) {
				continue
			}
			matchers := slices.Clone(ask.Matchers)
			known.Range(func(l labels.Label) {
				matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value))
			})
			more, err := s.recorded(ctx, ask.MinT, until, matchers)
			if err != nil {
				return nil, err
			}
			parts = append(parts, more...)
		}
	}
	sel, err := selection.Merge(ctx, append(parts, upstream)...)
	if err == nil && sel != upstream {
		sel.OnDiscard = upstream.Discard
	}
	return sel, err
}

// recorded returns what the stretch in memory has in [mint, maxt], and what blocks have.
func (b *backfill) recorded(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (parts []*selection.Selection, err error) {
	memory := selection.NewBuilder(0).Within(ctx)
	for _, s := range b.series {
		if part := s.cut(mint, maxt+1); part != nil && labels.Selector(matchers).Matches(s.Labels) {
			memory.Series(s.Labels)
			err = errors.Join(err, memory.Samples(part.Iterator(nil)))
		}
	}
	part, failed := memory.Finish()
	parts, err = append(parts, part), errors.Join(err, failed)
	for _, block := range b.blocks {
		if err == nil && block.OverlapsClosedInterval(mint, maxt) {
			var q storage.ChunkQuerier
			if q, err = tsdb.NewBlockChunkQuerier(block, mint, maxt); err == nil {
				part, _, err = selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, &storage.SelectHints{Start: mint, End: maxt}, matchers...), 0)
				parts, err = append(parts, part), errors.Join(err, q.Close())
			}
		}
	}
	return parts, err
}
