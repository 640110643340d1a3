package selection

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Querier is what a storage.Querier may also be: one that hands out what a
// selector matched without decoding it. Hints may be nil; the selection covers
// at least their time range, or else the querier's. It may be asked from several
// goroutines at once.
type Querier interface {
	SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*Selection, annotations.Annotations, error)
}

// Ask is what one of several selectors is asked for. The hints may be nil.
type Ask struct {
	Ctx      context.Context // of who asks; fetches take what it says of the request
	Hints    *storage.SelectHints
	Matchers []*labels.Matcher
}

// Get waits until what a selector matches is there, as long as ctx lasts. It is called once, or
// never.
type Get func(ctx context.Context) (*Selection, annotations.Annotations, error)

// Beginner is what a Querier may also be: one that begins to fetch for many selectors at once, in
// fewer requests than one each. What is not got is given up when the querier is closed.
type Beginner interface {
	BeginChunks(asks []Ask) []Get
}

// Begin begins to fetch for selectors, or leaves it to each Get where q can do no better.
func Begin(q Querier, asks []Ask) []Get {
	if b, ok := q.(Beginner); ok {
		return b.BeginChunks(asks)
	}
	gets := make([]Get, len(asks))
	for i, a := range asks {
		gets[i] = func(ctx context.Context) (*Selection, annotations.Annotations, error) {
			return q.SelectChunks(ctx, a.Hints, a.Matchers...)
		}
	}
	return gets
}

// FromChunkSeriesSet drains set into a selection. limit is the most chunk
// bytes it may hold; 0 means no limit.
func FromChunkSeriesSet(ctx context.Context, set storage.ChunkSeriesSet, limit int64) (*Selection, annotations.Annotations, error) {
	var it chunks.Iterator
	return collect(ctx, set, limit, func(b *Builder) error {
		series := set.At()
		b.Series(series.Labels())
		it = series.Iterator(it)
		for it.Next() {
			m := it.At()
			if err := b.Chunk(m.Chunk.Encoding(), m.MinTime, m.MaxTime, m.Chunk.Bytes()); err != nil {
				return err
			}
		}
		return it.Err()
	})
}

// FromSeriesSet drains set into a selection, encoding its samples into chunks.
// A series whose samples are not in time order is an error. limit is the most
// chunk bytes the selection may hold; 0 means no limit.
func FromSeriesSet(ctx context.Context, set storage.SeriesSet, limit int64) (*Selection, annotations.Annotations, error) {
	var it chunkenc.Iterator
	return collect(ctx, set, limit, func(b *Builder) error {
		series := set.At()
		b.Series(series.Labels())
		it = series.Iterator(it)
		return b.Samples(it)
	})
}

// collect calls add for every series of set and returns what that built.
func collect(ctx context.Context, set interface {
	Next() bool
	Err() error
	Warnings() annotations.Annotations
}, limit int64, add func(*Builder) error,
) (*Selection, annotations.Annotations, error) {
	b := NewBuilder(limit).Within(ctx)
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return nil, set.Warnings(), err
		}
		if err := add(b); err != nil {
			return nil, set.Warnings(), err
		}
	}
	if err := set.Err(); err != nil {
		return nil, set.Warnings(), err
	}
	s, err := b.Finish()
	return s, set.Warnings(), err
}
