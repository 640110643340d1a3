package cache

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
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
	_ selection.Source                = (*Cache)(nil)
	_ selection.Reader                = (*reader)(nil)
	_ selection.Beginner              = (*reader)(nil)
)

// Querier implements storage.Queryable, for nobody's request.
func (c *Cache) Querier(mint, maxt int64) (storage.Querier, error) {
	return selection.Storage{Source: c}.Querier(mint, maxt)
}

// ChunkQuerier implements storage.ChunkQueryable, for nobody's request.
func (c *Cache) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return selection.Storage{Source: c}.ChunkQuerier(mint, maxt)
}

// reader reads for a request.
type reader struct {
	c          *Cache
	request    selection.Request // with statistics
	mint, maxt int64

	mu     sync.Mutex
	looked []*lookup
}

// Open implements selection.Source.
func (c *Cache) Open(r selection.Request, mint, maxt int64) selection.Reader {
	if r.Stats == nil {
		r.Stats = &selection.Stats{}
	}
	return &reader{c: c, request: r, mint: mint, maxt: maxt}
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return r.BeginChunks([]selection.Ask{{Ctx: ctx, Hints: hints, Matchers: matchers}})[0](ctx)
}

// BeginChunks implements selection.Beginner. Selectors that are asked for at one moment lack the same
// times.
func (r *reader) BeginChunks(asks []selection.Ask) []selection.Get {
	gets := make([]selection.Get, len(asks))
	m := r.c.moment()
	var starts []*flight
	defer func() { r.c.launch(starts) }()
	for i, a := range asks {
		mint, maxt := selection.Bounds(a.Hints, r.mint, r.maxt)
		if mint > maxt || a.Ctx.Err() != nil {
			gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
				return selection.Empty(), nil, ctx.Err()
			}
			continue
		}
		a.Request = r.request
		q := question{between(mint, maxt), a.Matchers, matching.Key(a.Matchers), m, a.Ctx, a.Fetch}
		l, own := r.c.look(&q)
		starts = append(starts, own...)
		r.mu.Lock()
		r.looked = append(r.looked, l)
		r.mu.Unlock()
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			sel, ws, err := r.c.answer(ctx, l)
			if err == nil {
				r.request.Stats.Samples.Add(sel.SamplesAbout(mint, maxt))
			}
			return sel, ws, err
		}
	}
	return gets
}

// between is the stretch from mint to maxt (ms, both included).
func between(mint, maxt int64) tile.Span {
	return tile.Span{From: max(mint, tile.MinTime), To: min(maxt, tile.MaxTime) + 1}
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

// Close implements storage.LabelQuerier. What was selected may be evicted after it.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.looked {
		r.c.release(l)
	}
	r.looked = nil
	return nil
}
