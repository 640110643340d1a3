package cache

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// LabelUpstream is what an Upstream may also be: one that can list labels.
// Times are in ms, both included. Without it the cache's queriers answer with
// ErrNoLabels.
type LabelUpstream interface {
	LabelValues(ctx context.Context, mint, maxt int64, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error)
	LabelNames(ctx context.Context, mint, maxt int64, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error)
}

// ErrNoLabels is returned when label names or values are asked of an upstream
// that cannot list them.
var ErrNoLabels = errors.New("listing label names and values is not supported over remote read; ask the upstream's HTTP API")

var (
	_ storage.SampleAndChunkQueryable = (*Cache)(nil)
	_ selection.Querier               = (*querier)(nil)
	_ selection.Querier               = (*chunkQuerier)(nil)
)

// Querier returns a querier for mint to maxt (ms, both included). It is a
// selection.Querier, too.
func (c *Cache) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{reader{c: c, mint: mint, maxt: maxt, leave: c.enter(), holds: &holds{}}}, nil
}

// ChunkQuerier returns a querier for the chunks that overlap mint to maxt (ms,
// both included). It is a selection.Querier, too.
func (c *Cache) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return &chunkQuerier{reader{c: c, mint: mint, maxt: maxt, leave: c.enter(), holds: &holds{}}}, nil
}

// reader is what the queriers have in common.
type reader struct {
	c          *Cache
	mint, maxt int64
	leave      func()
	holds      *holds
}

// bounds is the time range that a selection is for, in ms, both included.
func (r *reader) bounds(hints *storage.SelectHints) (mint, maxt int64) {
	if hints == nil || hints.Start == 0 && hints.End == 0 {
		return r.mint, r.maxt
	}
	return hints.Start, hints.End
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	mint, maxt := r.bounds(hints)
	return r.c.getFor(ctx, r.holds, mint, maxt, matchers)
}

// LabelValues implements storage.LabelQuerier.
func (r *reader) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if up, ok := r.c.up.(LabelUpstream); ok {
		return up.LabelValues(ctx, r.mint, r.maxt, name, hints, matchers...)
	}
	return nil, nil, ErrNoLabels
}

// LabelNames implements storage.LabelQuerier.
func (r *reader) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if up, ok := r.c.up.(LabelUpstream); ok {
		return up.LabelNames(ctx, r.mint, r.maxt, hints, matchers...)
	}
	return nil, nil, ErrNoLabels
}

// Close implements storage.LabelQuerier. What was selected must not be read
// after it: it may be in files.
func (r *reader) Close() error {
	r.c.release(r.holds)
	r.leave()
	return nil
}

type querier struct{ reader }

// Select implements storage.Querier. Series are always sorted. Nothing is
// fetched before the set's first Next.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return &lazySet[storage.Series]{open: func() openSet[storage.Series] {
		mint, maxt := q.bounds(hints)
		sel, ws, err := q.c.getFor(ctx, q.holds, mint, maxt, matchers)
		if err != nil {
			return failedSet[storage.Series]{err, ws}
		}
		return sel.SeriesSet(mint, maxt, ws)
	}}
}

type chunkQuerier struct{ reader }

// Select implements storage.ChunkQuerier. Series are always sorted. Nothing is
// fetched before the set's first Next.
func (q *chunkQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.ChunkSeriesSet {
	return &lazySet[storage.ChunkSeries]{open: func() openSet[storage.ChunkSeries] {
		mint, maxt := q.bounds(hints)
		sel, ws, err := q.c.getFor(ctx, q.holds, mint, maxt, matchers)
		if err != nil {
			return failedSet[storage.ChunkSeries]{err, ws}
		}
		return sel.ChunkSeriesSet(mint, maxt, ws)
	}}
}

// openSet is a storage.SeriesSet or a storage.ChunkSeriesSet.
type openSet[S any] interface {
	Next() bool
	At() S
	Err() error
	Warnings() annotations.Annotations
}

// lazySet opens a set at the first Next.
type lazySet[S any] struct {
	open func() openSet[S]
	set  openSet[S]
}

func (l *lazySet[S]) Next() bool {
	if l.set == nil {
		l.set = l.open()
	}
	return l.set.Next()
}

func (l *lazySet[S]) At() S { return l.set.At() }

func (l *lazySet[S]) Err() error {
	if l.set == nil {
		return nil
	}
	return l.set.Err()
}

func (l *lazySet[S]) Warnings() annotations.Annotations {
	if l.set == nil {
		return nil
	}
	return l.set.Warnings()
}

// failedSet is a set that could not be opened.
type failedSet[S any] struct {
	err error
	ws  annotations.Annotations
}

func (failedSet[S]) Next() bool                          { return false }
func (failedSet[S]) At() (s S)                           { return s }
func (f failedSet[S]) Err() error                        { return f.err }
func (f failedSet[S]) Warnings() annotations.Annotations { return f.ws }
