package fanout

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/selection"
)

var (
	_ storage.SampleAndChunkQueryable = (*Fanout)(nil)
	_ selection.Source                = (*Fanout)(nil)
	_ selection.Reader                = (*reader)(nil)
	_ selection.Beginner              = (*reader)(nil)
)

// Querier implements storage.Queryable, for nobody's request.
func (f *Fanout) Querier(mint, maxt int64) (storage.Querier, error) {
	return selection.Storage{Source: f}.Querier(mint, maxt)
}

// ChunkQuerier implements storage.ChunkQueryable, for nobody's request.
func (f *Fanout) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return selection.Storage{Source: f}.ChunkQuerier(mint, maxt)
}

// Kept implements selection.Keeper.
func (r *reader) Kept(matchers ...*labels.Matcher) (kept []*selection.Selection) {
	for _, q := range r.in {
		kept = append(kept, q.Kept(matchers...)...)
	}
	return kept
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return r.BeginChunks([]selection.Ask{{Ctx: ctx, Hints: hints, Matchers: matchers}})[0](ctx)
}

// BeginChunks implements selection.Beginner.
func (r *reader) BeginChunks(asks []selection.Ask) []selection.Get {
	r.mu.Lock()
	without := slices.Clone(r.without)
	r.mu.Unlock()
	begun := make([][]selection.Get, len(r.in)) // by upstream; nil of those that are left out
	for u, q := range r.in {
		if without[u] != nil {
			continue
		}
		own := slices.Clone(asks)
		for i := range own {
			own[i].Came = nil // a part of one upstream's is none of what all have
		}
		begun[u] = selection.Begin(q, own)
	}
	gets := make([]selection.Get, len(asks))
	for i := range asks {
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			return r.merged(ctx, r.wait(ctx, begun, i))
		}
	}
	return gets
}

// merged is what the answers of all upstreams come to.
func (r *reader) merged(ctx context.Context, answers []answer) (*selection.Selection, annotations.Annotations, error) {
	parts, ws, err := r.accept(ctx, answers)
	if err != nil {
		return nil, ws, err
	}
	discard := func() {
		for _, p := range parts {
			p.Discard()
		}
	}
	sel, err := selection.Merge(ctx, parts...)
	if err != nil {
		if ctx.Err() == nil {
			discard()
		}
		return nil, ws, err
	}
	if !slices.Contains(parts, sel) {
		sel.SetDiscard(discard)
	}
	return sel, ws, nil
}

// LabelValues implements storage.LabelQuerier. Several upstreams are asked for lists over HTTP.
func (r *reader) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, cache.ErrNoLabels
}

// LabelNames implements storage.LabelQuerier, as LabelValues.
func (r *reader) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, cache.ErrNoLabels
}

// Close implements storage.LabelQuerier.
func (r *reader) Close() error {
	var errs []error
	for _, q := range r.in {
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}
