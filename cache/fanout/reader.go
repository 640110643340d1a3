package fanout

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// reader reads for a request, all of whose selectors are answered without an upstream or none is.
type reader struct {
	f       *Fanout
	request selection.Request
	in      []selection.Reader // one for each upstream
	stats   []*selection.Stats // of each upstream

	mu      sync.Mutex
	without []error // why an upstream is left out; else nil
	used    []bool  // whether something of an upstream was handed out
}

// Open implements selection.Source.
func (f *Fanout) Open(r selection.Request, mint, maxt int64) selection.Reader {
	if r.Stats == nil {
		r.Stats = &selection.Stats{}
	}
	out := &reader{f: f, request: r, stats: r.Stats.Of(f.names), without: slices.Clone(f.without), used: make([]bool, len(f.ups))}
	for i, u := range f.ups {
		r.Stats = out.stats[i]
		out.in = append(out.in, u.Cache.Open(r, mint, maxt))
	}
	return out
}

// answer is what one upstream answered.
type answer struct {
	sel *selection.Selection
	ws  annotations.Annotations
	err error
}

// wait waits for what all upstreams but those that are left out have for ask i. When one fails
// without which there is no answer, the others are not waited for.
func (r *reader) wait(ctx context.Context, begun [][]selection.Get, i int) []answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make([]answer, len(r.in))
	var wg sync.WaitGroup
	for u, gets := range begun {
		if gets == nil || r.leftOut(u) {
			continue
		}
		a := &answers[u]
		wg.Go(func() {
			err := parallel.Rescue(func() (err error) {
				a.sel, a.ws, err = gets[i](ctx)
				return err
			})
			if a.err = err; err != nil && !r.optional(u) {
				cancel()
			}
		})
	}
	wg.Wait()
	return answers
}

// leftOut reports whether answers are without upstream u.
func (r *reader) leftOut(u int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.without[u] != nil
}

// optional reports whether there may be an answer without upstream i.
func (r *reader) optional(i int) bool { return r.f.ups[i].Optional && !r.request.Whole }

// accept returns the selections that count, and warnings, among them those for the
// upstreams that are left out.
func (r *reader) accept(ctx context.Context, answers []answer) ([]*selection.Selection, annotations.Annotations, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := r.failure(answers); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var ws annotations.Annotations
	var kept []*selection.Selection
	changed := error(nil)
	for i, a := range answers {
		if r.without[i] == nil && a.err != nil {
			r.without[i] = &PartialWarning{r.f.ups[i].Name, a.err}
			if r.used[i] {
				changed = r.without[i]
			}
		}
		if why := r.without[i]; why != nil {
			ws.Add(why)
			r.f.partial.WithLabelValues(r.f.ups[i].Name).Inc()
			r.stats[i].Fail(why)
			continue
		}
		ws.Merge(a.ws)
		kept = append(kept, a.sel)
		r.used[i] = r.used[i] || a.sel.NumSeries() > 0
	}
	if changed != nil {
		return nil, ws, &selection.Again{Queryable: selection.Storage{Source: r.f.leave(r.without), Request: r.request}, Err: changed}
	}
	return kept, ws, nil
}

// failure is the error of an upstream without which there is no answer; of
// several, that of the first that did not fail because of another.
func (r *reader) failure(answers []answer) error {
	var first error
	for i, a := range answers {
		if a.err == nil || r.optional(i) {
			continue
		}
		if !errors.Is(a.err, context.Canceled) {
			return a.err
		}
		if first == nil {
			first = a.err
		}
	}
	return first
}
