package engine

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/selection"
)

// samples is the queryable that Prometheus's engine evaluates a query over: what was fetched for
// executors that then declined, and the storage for all else. The memory of samples is charged to the
// query.
type samples struct{ q *query }

// Querier implements storage.Queryable.
func (s samples) Querier(mint, maxt int64) (storage.Querier, error) {
	if err := s.q.openFetches(mint, maxt); err != nil {
		return nil, err
	}
	f := s.q.fetches
	return &querier{Querier: f.querier, f: f, fetched: f.bySelector(s.q.stmt.Expr), meter: s.q.meter()}, nil
}

// querier answers for selectors that were fetched, and passes every other selector on. What it
// answered stays readable until the query's fetches are closed.
type querier struct {
	storage.Querier
	f       *fetches
	fetched func([]*labels.Matcher) *fetched
	meter   *meter
}

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

func (qr *querier) Select(ctx context.Context, sortSeries bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if f := qr.fetched(ms); f != nil {
		mint, maxt := selection.Bounds(hints, qr.f.mint, qr.f.maxt)
		return qr.meter.over(selection.LazySeriesSet(mint, maxt, f.get), hints)
	}
	return qr.meter.over(qr.Querier.Select(ctx, sortSeries, hints, ms...), hints)
}
