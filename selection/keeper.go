package selection

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// Keeper is what a Querier may also be: one that keeps selections for later queries.
type Keeper interface {
	// Kept returns what is kept of a selector at this moment, of whatever times: nothing,
	// or a selection of each source that keeps some. It fetches nothing and is no use of
	// what is kept.
	Kept(matchers ...*labels.Matcher) []*Selection
}

// Reader is what SeriesQuerier and ChunkQuerier make queriers of.
type Reader interface {
	storage.LabelQuerier
	Querier
	Keeper
}

// SeriesQuerier is a storage.Querier from Mint to Maxt (ms, both included).
type SeriesQuerier struct {
	Reader
	Mint, Maxt int64
}

// Select implements storage.Querier. Series are always sorted. Nothing is selected before the
// set's first Next.
func (q *SeriesQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := Bounds(hints, q.Mint, q.Maxt)
	return LazySeriesSet(mint, maxt, func() (*Selection, annotations.Annotations, error) {
		return q.SelectChunks(ctx, hints, matchers...)
	})
}

// BeginChunks implements Beginner.
func (q *SeriesQuerier) BeginChunks(asks []Ask) []Get { return Begin(q.Reader, asks) }

// ChunkQuerier is a storage.ChunkQuerier from Mint to Maxt (ms, both included).
type ChunkQuerier struct {
	Reader
	Mint, Maxt int64
}

// BeginChunks implements Beginner.
func (q *ChunkQuerier) BeginChunks(asks []Ask) []Get { return Begin(q.Reader, asks) }

// Select implements storage.ChunkQuerier as that of SeriesQuerier does storage.Querier.
func (q *ChunkQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.ChunkSeriesSet {
	mint, maxt := Bounds(hints, q.Mint, q.Maxt)
	return &lazySet[storage.ChunkSeries]{open: func() openSet[storage.ChunkSeries] {
		sel, ws, err := q.SelectChunks(ctx, hints, matchers...)
		if err != nil {
			return failedSet[storage.ChunkSeries]{err, ws}
		}
		return sel.ChunkSeriesSet(mint, maxt, ws)
	}}
}
