package synthetic

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// Storage is a storage of one selection, which every selector matches as a whole.
type Storage struct{ *selection.Selection }

// Querier implements storage.Queryable.
func (s Storage) Querier(int64, int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), s.Selection}, nil
}

type querier struct {
	storage.Querier
	sel *selection.Selection
}

// SelectChunks implements selection.Querier.
func (q querier) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return q.sel, nil, nil
}
