package engine

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"go.opentelemetry.io/otel/attribute"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// standInLabel is the label whose matcher marks a stand-in selector. Its value
// is the index of the part it stands in for.
const standInLabel = "__promwarp_node__"

// standIn returns the expression that takes a part's place in the query: a
// selector that yields the part's result, at the part's position. It is wrapped
// because parents such as absent and timestamp treat a bare selector specially,
// and matched by a regular expression because absent reads labels off equality
// matchers.
//
// With delayed name removal the engine must also be told to drop the metric
// names in the end, which a selector cannot say. The stand-in is then
// last_over_time over a window of 1 ms, which holds just the step's own point,
// of series that carry the flag. So it is of a scalar, too: a call can be told what
// type it has, and Prometheus's engine treats both sides of an operator by their types.
func standIn(i int, p *planner.Part, delayedNameRemoval bool) parser.Expr {
	pos := p.Expr.PositionRange()
	sel := &parser.VectorSelector{
		LabelMatchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, standInLabel, strconv.Itoa(i))},
		PosRange:      pos,
	}
	if !asStorageSeries(p, delayedNameRemoval) {
		return &parser.ParenExpr{Expr: sel, PosRange: pos}
	}
	f := *parser.Functions["last_over_time"]
	f.ReturnType = p.Expr.Type()
	return &parser.Call{
		Func:     &f,
		Args:     parser.Expressions{&parser.MatrixSelector{VectorSelector: sel, Range: time.Millisecond, EndPos: pos.End}},
		PosRange: pos,
	}
}

// asStorageSeries reports whether the stand-in of p takes its points from a
// promql.StorageSeries.
func asStorageSeries(p *planner.Part, delayedNameRemoval bool) bool {
	return delayedNameRemoval || p.Expr.Type() == parser.ValueTypeScalar
}

// standInIndex returns the index that a stand-in's matchers name.
func standInIndex(ms []*labels.Matcher) (int, bool) {
	if len(ms) != 1 || ms[0].Name != standInLabel {
		return 0, false
	}
	i, err := strconv.Atoi(ms[0].Value)
	return i, err == nil
}

// lazySet computes a part when the engine asks for its first series, so that
// errors come in the engine's own order and under its context and timeout.
type lazySet struct {
	ctx     context.Context
	compute func(context.Context) (*plan.Matrix, error)
	asFloat bool // yield promql.StorageSeries
	meter   *meter

	started bool
	m       *plan.Matrix
	i       int
	err     error
}

func (s *lazySet) Next() bool {
	if !s.started {
		s.started = true
		s.i = -1
		s.m, s.err = s.compute(s.ctx)
	}
	if s.err != nil {
		return false
	}
	s.i++
	return s.i < len(s.m.Rows)
}

func (s *lazySet) At() storage.Series {
	row := &s.m.Rows[s.i]
	if !s.asFloat {
		return &standInSeries{row: row, grid: s.m.Grid, meter: s.meter}
	}
	series := seriesOf(row, s.m.Grid)
	series.DropName = s.m.DropName
	return promql.NewStorageSeries(series)
}

func (s *lazySet) Err() error { return s.err }

func (s *lazySet) Warnings() annotations.Annotations {
	if s.m == nil {
		return nil
	}
	return s.m.Annotations
}

// standInSeries is one row as a series: a sample at each step that has a value
// and a stale marker at the first step that has none, so that the engine's
// lookback finds no value there either.
type standInSeries struct {
	row   *plan.Row
	grid  plan.Grid
	meter *meter
}

func (s *standInSeries) Labels() labels.Labels { return s.row.Labels }

func (s *standInSeries) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	if err := s.meter.check(int64(len(s.row.Values))); err != nil {
		return failedIterator{chunkenc.NewNopIterator(), err}
	}
	it, ok := reuse.(*standInIterator)
	if !ok {
		it = &standInIterator{}
	}
	*it = standInIterator{row: s.row, grid: s.grid, step: -1}
	return it
}

// standInIterator walks the runs of a row. After the last step of a run it
// yields a stale marker if the grid goes on.
type standInIterator struct {
	row   *plan.Row
	grid  plan.Grid
	run   int // the current run
	base  int // index of the current run's first value
	step  int // the current step, -1 before the first
	stale bool
	done  bool
}

func (it *standInIterator) Next() chunkenc.ValueType { return it.toStep(it.step + 1) }

func (it *standInIterator) Seek(t int64) chunkenc.ValueType {
	if it.step >= 0 && !it.done && it.AtT() >= t {
		return chunkenc.ValFloat
	}
	k := 0
	if t > it.grid.Start {
		k = int((t - it.grid.Start + it.grid.Interval - 1) / it.grid.Interval)
	}
	return it.toStep(max(k, it.step+1))
}

// toStep moves to the first sample or stale marker at or after step k.
func (it *standInIterator) toStep(k int) chunkenc.ValueType {
	for !it.done && it.run < len(it.row.Runs) {
		r := it.row.Runs[it.run]
		first, end := int(r.First), int(r.First+r.Len)
		switch {
		case k < first:
			it.step, it.stale = first, false
			return chunkenc.ValFloat
		case k < end:
			it.step, it.stale = k, false
			return chunkenc.ValFloat
		case k == end && end < it.grid.Steps:
			it.step, it.stale = end, true
			return chunkenc.ValFloat
		}
		it.base += int(r.Len)
		it.run++
	}
	it.done = true
	return chunkenc.ValNone
}

func (it *standInIterator) At() (int64, float64) {
	if it.stale {
		return it.AtT(), math.Float64frombits(value.StaleNaN)
	}
	return it.AtT(), it.row.Values[it.base+it.step-int(it.row.Runs[it.run].First)]
}

func (it *standInIterator) AtT() int64 { return it.grid.At(it.step) }
func (*standInIterator) AtST() int64   { return 0 }
func (*standInIterator) Err() error    { return nil }

func (*standInIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return 0, nil
}

func (*standInIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return 0, nil
}

// evalError marks an error raised by an executor rather than by the storage, so
// that the engine's "expanding series" prefix can be taken off again.
type evalError struct{ err error }

func (e *evalError) Error() string { return e.err.Error() }
func (e *evalError) Unwrap() error { return e.err }

// wrapper is the queryable that Prometheus's engine sees.
type wrapper struct{ q *query }

func (w wrapper) Querier(mint, maxt int64) (storage.Querier, error) {
	q := w.q
	if q.mode == Prometheus {
		inner, err := q.q.Querier(mint, maxt)
		if err != nil {
			return nil, err
		}
		return metered{inner, q.meter()}, nil
	}
	if q.fetches == nil {
		var err error
		if q.fetches, err = openFetches(q.ctx, q.q, mint, maxt); err != nil {
			return nil, err
		}
	}
	_, span := tracing.Start(q.ctx, "plan")
	err := q.choose()
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("parts", len(q.parts)))
	}
	tracing.End(span, err)
	if err != nil {
		return nil, err
	}
	for i, p := range q.parts {
		*p.Slot = standIn(i, p, q.e.opts.Prometheus.EnableDelayedNameRemoval)
	}
	return &querier{Querier: q.fetches.querier, q: q, fetched: q.fetches.bySelector(q.stmt.Expr), meter: q.meter()}, nil
}

// querier answers for stand-ins and for selectors that were fetched, and passes every
// other selector on. What it answered stays readable until the query's fetches are closed.
type querier struct {
	storage.Querier
	q       *query
	fetched func([]*labels.Matcher) *fetched
	meter   *meter
}

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

func (qr *querier) Select(ctx context.Context, sortSeries bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	i, ok := standInIndex(ms)
	if !ok {
		if f := qr.fetched(ms); f != nil {
			mint, maxt := selection.Bounds(hints, qr.q.fetches.mint, qr.q.fetches.maxt)
			return qr.meter.over(selection.LazySeriesSet(mint, maxt, f.get), hints)
		}
		return qr.meter.over(qr.Querier.Select(ctx, sortSeries, hints, ms...), hints)
	}
	p := qr.q.parts[i]
	return &lazySet{
		ctx:     ctx,
		asFloat: asStorageSeries(p, qr.q.e.opts.Prometheus.EnableDelayedNameRemoval),
		compute: func(ctx context.Context) (*plan.Matrix, error) { return qr.compute(ctx, p) },
		meter:   qr.meter,
	}
}

func (qr *querier) compute(ctx context.Context, p *planner.Part) (m *plan.Matrix, err error) {
	o := &qr.q.e.opts.Prometheus
	start := time.Now()
	ctx, span := tracing.Start(tracing.Under(qr.q.ctx, ctx), "evaluate")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("kind", p.Decision.Kind), attribute.Int("steps", p.Grid.Steps))
	}
	defer func() { tracing.End(span, err) }()
	job := cpuexec.Job{
		Node: p.Node, Grid: p.Grid,
		Select: func(_ context.Context, w *plan.Window, g plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			if w.Func == window.InfoTime {
				return qr.q.fetches.infoSeries(w, g)
			}
			return qr.q.fetches.started(w).get()
		},
		Accelerator:        qr.q.accelerator(p),
		Budget:             qr.q.budget,
		MaxSamples:         o.MaxSamples,
		DelayedNameRemoval: o.EnableDelayedNameRemoval,
		TypeAndUnitLabels:  o.EnableTypeAndUnitLabels,
		StartTimestamps:    o.UseStartTimestamps,
		CountSamples:       qr.q.stats,
	}
	if qr.q.remembers(p) {
		job.Results = qr.q.e.results
	}
	job.Noted = func(n plan.Node, steps plan.KeptSteps) {
		if job.Results != nil || steps.Ahead > 0 {
			p.Of[n].Remembered = &steps
		}
	}
	if m, err = qr.q.run(ctx, p, job); err != nil {
		var sel *cpuexec.SelectError
		if errors.As(err, &sel) {
			if err = sel.Err; !sel.Bare {
				return nil, err
			}
		}
		return nil, &evalError{err}
	}
	qr.q.computed = append(qr.q.computed, m)
	m.Work.EvalMicros = time.Since(start).Microseconds() - m.Work.FetchMicros
	m.Work.FetchMicros += qr.q.fetches.waitedFor().Microseconds()
	qr.q.peak = max(qr.q.peak, m.Peak)
	p.Decision.Work = &m.Work
	direct := qr.q.direct(p)
	if qr.q.stats {
		qr.q.reads = append(qr.q.reads, countSamples(qr.q.Query.Stats().Samples, p, m, direct))
	}
	if direct {
		return qr.q.claimDirect(m)
	}
	return m, nil
}
