package engine

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"go.opentelemetry.io/otel/attribute"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

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
