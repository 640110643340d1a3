package synthetic

import (
	"context"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// Metrics is a storage of several metrics by name. Selectors name a metric and no more.
type Metrics map[string]*selection.Selection

// Querier implements storage.Queryable.
func (m Metrics) Querier(mint, maxt int64) (storage.Querier, error) {
	return metricQuerier{storage.NoopQuerier(), m, mint, maxt}, nil
}

type metricQuerier struct {
	storage.Querier
	of         Metrics
	mint, maxt int64
}

// SelectChunks implements selection.Querier.
func (q metricQuerier) SelectChunks(_ context.Context, _ *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && q.of[m.Value] != nil {
			return q.of[m.Value], nil, nil
		}
	}
	return selection.Empty(), nil, nil
}

// Select implements storage.Querier.
func (q metricQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	s, _, _ := q.SelectChunks(ctx, hints, ms...)
	return s.SeriesSet(q.mint, q.maxt, nil)
}
