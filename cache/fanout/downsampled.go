package fanout

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread/stores"
	"github.com/promwarp/promwarp/selection"
)

// Downsampled is a cache in front of a store of Thanos of which blocks of a lower resolution may be read. Each
// selector says by a matcher which aggregate it reads and of which resolution, so each has tiles of its own.
type Downsampled struct {
	*cache.Cache
	Resolution time.Duration // the lowest
}

// Open implements selection.Source.
func (d *Downsampled) Open(r selection.Request, mint, maxt int64) selection.Reader {
	return &downsampledReader{d.Cache.Open(r, mint, maxt), d}
}

type downsampledReader struct {
	selection.Reader
	d *Downsampled
}

// with is matchers and the one of an aggregate. The first stays the first: by it the engine knows them.
func (r *downsampledReader) with(matchers []*labels.Matcher, function string, window int64) []*labels.Matcher {
	return append(slices.Clip(matchers), stores.Aggregate(function, time.Duration(window)*time.Millisecond, r.d.Resolution))
}

// SelectChunks implements selection.Querier.
func (r *downsampledReader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	if hints == nil {
		hints = &storage.SelectHints{}
	}
	return r.Reader.SelectChunks(ctx, hints, r.with(matchers, hints.Func, hints.Range)...)
}

// BeginChunks implements selection.Beginner.
func (r *downsampledReader) BeginChunks(asks []selection.Ask) []selection.Get {
	asks = slices.Clone(asks)
	for i, a := range asks {
		var h storage.SelectHints
		if a.Hints != nil {
			h = a.Hints()
		}
		asks[i].Matchers = r.with(a.Matchers, h.Func, h.Range)
	}
	return r.Reader.BeginChunks(asks)
}

// Holdings implements selection.Keeper.
func (r *downsampledReader) Holdings(a selection.Ask, most int) []selection.Holding {
	h := a.Hints()
	a.Matchers = r.with(a.Matchers, h.Func, h.Range)
	return r.Reader.Holdings(a, most)
}
