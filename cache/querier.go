package cache

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/matching"
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
	_ selection.Keeper                = (*querier)(nil)
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
	return selection.Bounds(hints, r.mint, r.maxt)
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	mint, maxt := r.bounds(hints)
	return r.c.getFor(ctx, r.holds, mint, maxt, matchers)
}

// Kept implements selection.Keeper.
func (r *reader) Kept(matchers ...*labels.Matcher) []*selection.Selection {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if e := r.c.entries[matching.Key(matchers)]; e != nil && e.sel != nil {
		return []*selection.Selection{e.sel}
	}
	return nil
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
	mint, maxt := q.bounds(hints)
	return selection.LazySeriesSet(mint, maxt, func() (*selection.Selection, annotations.Annotations, error) {
		return q.c.getFor(ctx, q.holds, mint, maxt, matchers)
	})
}

type chunkQuerier struct{ reader }

// Select implements storage.ChunkQuerier. Series are always sorted. Nothing is
// fetched before the set's first Next.
func (q *chunkQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.ChunkSeriesSet {
	mint, maxt := q.bounds(hints)
	return selection.LazyChunkSeriesSet(mint, maxt, func() (*selection.Selection, annotations.Annotations, error) {
		return q.c.getFor(ctx, q.holds, mint, maxt, matchers)
	})
}
