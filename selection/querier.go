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

// Single is a storage of one selection, which every selector matches as a whole, and the querier on it.
type Single struct {
	Selection *Selection
	storage.LabelQuerier
	mint, maxt int64
}

// Querier implements storage.Queryable.
func (s Single) Querier(mint, maxt int64) (storage.Querier, error) {
	return Single{s.Selection, storage.NoopQuerier(), mint, maxt}, nil
}

// SelectChunks implements Querier.
func (s Single) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*Selection, annotations.Annotations, error) {
	return s.Selection, nil, nil
}

// Select implements storage.Querier.
func (s Single) Select(_ context.Context, _ bool, hints *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := Bounds(hints, s.mint, s.maxt)
	return s.Selection.SeriesSet(mint, maxt, nil)
}

// Ask is what one of several selectors is asked for.
type Ask struct {
	Ctx        context.Context // of who asks
	MinT, MaxT int64           // the times that a selection covers at least, ms, both included
	Matchers   []*labels.Matcher
	// Hints returns what Prometheus's engine would hint at, for a source whose answers depend on it; nil
	// where that is not known.
	Hints func() storage.SelectHints
	// Fetch is for what must be fetched. A reader fills in the request, and what is to be expected.
	Fetch
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
			return q.SelectChunks(ctx, &storage.SelectHints{Start: a.MinT, End: a.MaxT}, a.Matchers...)
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

// Keeper is what a Querier may also be: one that keeps selections for later queries.
type Keeper interface {
	// Holdings returns what each source has of what an Ask asks for, and what it would fetch. It
	// fetches nothing, is no use of what is kept, and looks through at most that many entries for a
	// wider selector.
	Holdings(a Ask, most int) []Holding
}

// Holding is what a source has of what an Ask asks for, by its tables.
type Holding struct {
	// Sel is what is kept of the selector; nil where nothing is. It may have more than is asked for.
	// Of it only labels and the table of chunks are to be read: the cache may drop it meanwhile.
	Sel *Selection
	// Matchers match the series of Sel that are asked for, where it is of a wider selector.
	Matchers []*labels.Matcher
	// MinT to MaxT (ms, both included) is what is asked for until now, or all of Sel's time where Sel
	// has nothing of that. Sel covers Held ms of it.
	MinT, MaxT, Held int64
	// Asked is how many ms are asked for until now, and Sources from where samples of how many would
	// come: kept, disk, wider or upstream. Fetched is how many would be fetched, in whole tiles.
	Asked, Fetched int64
	Sources        map[string]int64
}

// Reader is what SeriesQuerier and ChunkQuerier make queriers of.
type Reader interface {
	storage.LabelQuerier
	Querier
	Beginner
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

// ChunkQuerier is a storage.ChunkQuerier from Mint to Maxt (ms, both included).
type ChunkQuerier struct {
	Reader
	Mint, Maxt int64
}

// Select implements storage.ChunkQuerier as that of SeriesQuerier does storage.Querier.
func (q *ChunkQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.ChunkSeriesSet {
	mint, maxt := Bounds(hints, q.Mint, q.Maxt)
	return &chunkSeriesSet{set{i: -1, mint: mint, maxt: maxt, get: func() (*Selection, annotations.Annotations, error) {
		return q.SelectChunks(ctx, hints, matchers...)
	}}}
}

// Bounds is the time range that a selection is for, in ms, both included: that of
// the hints, which may be nil, or else the querier's.
func Bounds(hints *storage.SelectHints, mint, maxt int64) (int64, int64) {
	if hints == nil || hints.Start == 0 && hints.End == 0 {
		return mint, maxt
	}
	return hints.Start, hints.End
}

// LazySeriesSet returns the series set from mint to maxt (ms, both included) of
// the selection that get returns. It is called at the set's first Next.
func LazySeriesSet(mint, maxt int64, get func() (*Selection, annotations.Annotations, error)) storage.SeriesSet {
	return &seriesSet{set{i: -1, mint: mint, maxt: maxt, get: get}}
}

// Again is the error of a selector that can only be answered otherwise than those
// before it in the same query were. The query is to be run again over Queryable,
// over which all are answered alike.
type Again struct {
	Queryable storage.Queryable
	Err       error // why
}

func (a *Again) Error() string { return a.Err.Error() }
func (a *Again) Unwrap() error { return a.Err }
