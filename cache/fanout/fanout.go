// Package fanout answers selectors from several caches, each in front of an
// upstream of its own, as if they were one: a Fanout where each has a part, Replicas where each has
// all.
//
// A Fanout merges what they have as Prometheus's fanout storage merges its remote
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
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// Cache is a cache.Cache.
type Cache interface {
	selection.Source
	Drop(mint, maxt int64, selectors ...[]*labels.Matcher) (cache.Dropped, error)
}

var _ Cache = (*cache.Cache)(nil)

// Upstream is one of the servers that are merged.
type Upstream struct {
	// Name is the upstream's in messages and metrics.
	Name  string
	Cache Cache
	// Optional says that queries are answered without it, with a warning, when it
	// fails.
	Optional bool
	// Away says why one of Replicas cannot be asked at the moment; nil if it can.
	Away func() error
}

// Fanout is several upstreams as one, a selection.Source. It is safe for concurrent use.
type Fanout struct {
	upstreams
	without []error // for each upstream that is left out, why; else nil
	partial *prometheus.CounterVec
}

// upstreams are several upstreams that are listed in some order.
type upstreams []Upstream

func (ups upstreams) names() (all []string) {
	for _, u := range ups {
		all = append(all, u.Name)
	}
	return all
}

// New returns the union of upstreams. Of samples of a series at one time that of
// the upstream named first is kept. r receives its metrics; nil means none.
func New(r prometheus.Registerer, ups ...Upstream) *Fanout {
	f := &Fanout{
		upstreams: ups, without: make([]error, len(ups)),
		partial: instrument.With(r).Counters("promwarp_partial_selections_total", "Selectors that were answered without an upstream, because it failed.", "upstream"),
	}
	for _, u := range ups {
		f.partial.WithLabelValues(u.Name)
	}
	return f
}

// Drop has all caches forget samples; see cache.Cache.Drop.
func (ups upstreams) Drop(mint, maxt int64, selectors ...[]*labels.Matcher) (cache.Dropped, error) {
	var all cache.Dropped
	var errs []error
	for _, u := range ups {
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

var (
	_ selection.Source = (*Fanout)(nil)
	_ selection.Reader = (*reader)(nil)
)

// reader reads for a request, all of whose selectors are answered without an upstream or none is.
type reader struct {
	f       *Fanout
	request selection.Request
	readers

	mu      sync.Mutex
	without []error // why an upstream is left out; else nil
	used    []bool  // whether something of an upstream was handed out
}

// readers are what upstreams are read with for one request.
type readers struct {
	in    []selection.Reader // one for each upstream
	stats []*selection.Stats // of each upstream

	mint, maxt int64 // ms, both included
}

// open opens a reader of each upstream.
func (ups upstreams) open(r selection.Request, mint, maxt int64) readers {
	if r.Stats == nil {
		r.Stats = &selection.Stats{}
	}
	out := readers{stats: r.Stats.Of(ups.names()), mint: mint, maxt: maxt}
	for i, u := range ups {
		r.Stats = out.stats[i]
		out.in = append(out.in, u.Cache.Open(r, mint, maxt))
	}
	return out
}

// Open implements selection.Source.
func (f *Fanout) Open(r selection.Request, mint, maxt int64) selection.Reader {
	return &reader{f: f, request: r, readers: f.open(r, mint, maxt), without: slices.Clone(f.without), used: make([]bool, len(f.upstreams))}
}

// answer is what one upstream answered.
type answer struct {
	sel *selection.Selection
	ws  annotations.Annotations
	err error
}

// wait waits for what all upstreams but those that are left out have for ask i. When one fails
// without which there is no answer, the others are not waited for, and that is the error.
func (r *reader) wait(ctx context.Context, begun [][]selection.Get, i int) ([]answer, error) {
	g, ctx := errgroup.WithContext(ctx)
	answers := make([]answer, len(r.in))
	for u, gets := range begun {
		r.mu.Lock()
		leftOut := r.without[u] != nil
		r.mu.Unlock()
		if gets == nil || leftOut {
			continue
		}
		a := &answers[u]
		g.Go(func() error {
			a.err = parallel.Rescue(func() (err error) {
				a.sel, a.ws, err = gets[i](ctx)
				return err
			})
			if r.optional(u) {
				return nil
			}
			return a.err
		})
	}
	return answers, g.Wait()
}

// optional reports whether there may be an answer without upstream i.
func (r *reader) optional(i int) bool { return r.f.upstreams[i].Optional && !r.request.Whole }

// accept returns the selections that count, and warnings, among them those for the
// upstreams that are left out.
func (r *reader) accept(answers []answer) ([]*selection.Selection, annotations.Annotations, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ws annotations.Annotations
	var kept []*selection.Selection
	changed := error(nil)
	for i, a := range answers {
		if r.without[i] == nil && a.err != nil {
			r.without[i] = &PartialWarning{r.f.upstreams[i].Name, a.err}
			if r.used[i] {
				changed = r.without[i]
			}
		}
		if why := r.without[i]; why != nil {
			ws.Add(why)
			r.f.partial.WithLabelValues(r.f.upstreams[i].Name).Inc()
			r.stats[i].Fail(why)
			continue
		}
		ws.Merge(a.ws)
		kept = append(kept, a.sel)
		r.used[i] = r.used[i] || a.sel.NumSeries() > 0
	}
	if changed != nil {
		rest := *r.f
		rest.without = slices.Clone(r.without)
		return nil, ws, &selection.Again{Queryable: selection.Storage{Source: &rest, Request: r.request}, Err: changed}
	}
	return kept, ws, nil
}

// Holdings implements selection.Keeper.
func (r *readers) Holdings(a selection.Ask, most int) (all []selection.Holding) {
	for _, q := range r.in {
		all = append(all, q.Holdings(a, most/len(r.in))...)
	}
	return all
}

// SelectChunks implements selection.Querier.
func (r *reader) SelectChunks(ctx context.Context, hints *storage.SelectHints, matchers ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return r.BeginChunks(r.ask(ctx, hints, matchers))[0](ctx)
}

// ask is the only one for a selector with the given hints, which may be nil.
func (r *readers) ask(ctx context.Context, hints *storage.SelectHints, matchers []*labels.Matcher) []selection.Ask {
	one := selection.Ask{Ctx: ctx, Matchers: matchers}
	one.MinT, one.MaxT = selection.Bounds(hints, r.mint, r.maxt)
	if hints != nil {
		one.Hints = func() storage.SelectHints { return *hints }
	}
	return []selection.Ask{one}
}

// BeginChunks implements selection.Beginner.
func (r *reader) BeginChunks(asks []selection.Ask) []selection.Get {
	r.mu.Lock()
	without := slices.Clone(r.without)
	r.mu.Unlock()
	begun := make([][]selection.Get, len(r.in)) // by upstream; nil of one that is left out
	for u, q := range r.in {
		if without[u] != nil {
			continue
		}
		own := slices.Clone(asks)
		for i := range own {
			own[i].Came = nil // a part of one upstream's is none of what all have
		}
		begun[u] = q.BeginChunks(own)
	}
	gets := make([]selection.Get, len(asks))
	for i := range asks {
		gets[i] = func(ctx context.Context) (*selection.Selection, annotations.Annotations, error) {
			answers, err := r.wait(ctx, begun, i)
			if err = cmp.Or(ctx.Err(), err); err != nil {
				return nil, nil, err
			}
			return r.merged(ctx, answers)
		}
	}
	return gets
}

// merged is what the answers of all upstreams come to.
func (r *reader) merged(ctx context.Context, answers []answer) (*selection.Selection, annotations.Annotations, error) {
	parts, ws, err := r.accept(answers)
	if err != nil {
		return nil, ws, err
	}
	sel, err := discarding(ctx, parts, func() (*selection.Selection, error) { return selection.Merge(ctx, parts...) })
	return sel, ws, err
}

// discarding returns what merge makes of parts. If it fails or is discarded, so are they.
func discarding(ctx context.Context, parts []*selection.Selection, merge func() (*selection.Selection, error)) (*selection.Selection, error) {
	discard := func() {
		for _, p := range parts {
			p.Discard()
		}
	}
	sel, err := merge()
	if err != nil {
		if ctx.Err() == nil {
			discard()
		}
		return nil, err
	}
	if !slices.Contains(parts, sel) {
		sel.OnDiscard = discard
	}
	return sel, nil
}

// LabelValues implements storage.LabelQuerier. Servers with remote read are asked for lists over HTTP.
func (r *reader) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return r.lists().LabelValues(ctx, name, hints, matchers...)
}

// LabelNames implements storage.LabelQuerier, as LabelValues.
func (r *reader) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return r.lists().LabelNames(ctx, hints, matchers...)
}

// lists returns what lists what all upstreams list. Of an optional one that fails the error is a warning.
func (r *reader) lists() storage.LabelQuerier {
	var needed, optional []storage.Querier
	for u, q := range r.in {
		one := &selection.SeriesQuerier{Reader: q, Mint: r.mint, Maxt: r.maxt}
		if r.optional(u) {
			optional = append(optional, one)
		} else {
			needed = append(needed, one)
		}
	}
	return storage.NewMergeQuerier(needed, optional, storage.ChainedSeriesMerge)
}

// Close implements storage.LabelQuerier.
func (r *readers) Close() error {
	var errs []error
	for _, q := range r.in {
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}
