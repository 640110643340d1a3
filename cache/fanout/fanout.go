// Package fanout answers selectors from several caches, each in front of an
// upstream of its own, as if they were one.
//
// It merges what they have as Prometheus's fanout storage merges its remote
// storages: the union of their series, and of the samples of a series that several
// of them have. Where these have samples at one time, that of the upstream listed
// first is kept; Prometheus keeps one at random.
//
// An upstream that fails is an error of the query, or, where it is optional, a
// warning: the answer is then without anything of that upstream, for all selectors
// of the query. Each cache keeps what its own upstream said, and nothing that was
// merged is kept, so an answer without an upstream is never taken for a whole one
// later.
package fanout

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/selection"
)

// Cache is a cache.Cache.
type Cache interface {
	selection.Source
	Drop(mint, maxt int64, selectors ...[]*labels.Matcher) (cache.Dropped, error)
}

var _ Cache = (*cache.Cache)(nil)

// Upstream is one of those that are merged.
type Upstream struct {
	// Name is the upstream's in messages and metrics.
	Name  string
	Cache Cache
	// Optional says that queries are answered without it, with a warning, when it
	// fails.
	Optional bool
}

// Fanout is several upstreams as one. It implements
// storage.SampleAndChunkQueryable, and its queriers implement selection.Querier.
// It is safe for concurrent use.
type Fanout struct {
	ups     []Upstream
	names   []string // of ups
	without []error  // for each upstream that is left out, why; else nil
	partial *prometheus.CounterVec
}

// New returns the union of upstreams. Of samples of a series at one time that of
// the upstream named first is kept. r receives its metrics; nil means none.
func New(r prometheus.Registerer, ups ...Upstream) *Fanout {
	f := &Fanout{
		ups: ups, without: make([]error, len(ups)),
		partial: instrument.With(r).Counters("promwarp_partial_selections_total", "Selectors that were answered without an upstream, because it failed.", "upstream"),
	}
	for _, u := range ups {
		f.names = append(f.names, u.Name)
		f.partial.WithLabelValues(u.Name)
	}
	return f
}

// Drop has all caches forget samples; see cache.Cache.Drop.
func (f *Fanout) Drop(mint, maxt int64, selectors ...[]*labels.Matcher) (cache.Dropped, error) {
	var all cache.Dropped
	var errs []error
	for _, u := range f.ups {
		d, err := u.Cache.Drop(mint, maxt, selectors...)
		all.Selectors += d.Selectors
		all.Tiles += d.Tiles
		if err != nil {
			errs = append(errs, fmt.Errorf("upstream %s: %w", u.Name, err))
		}
	}
	return all, errors.Join(errs...)
}

// PartialWarning says that an answer is without an upstream.
type PartialWarning struct {
	Upstream string
	Err      error // why
}

func (w *PartialWarning) Error() string {
	return fmt.Sprintf("partial answer, without anything of the upstream %s: %v", w.Upstream, w.Err)
}

func (w *PartialWarning) Unwrap() error { return w.Err }
