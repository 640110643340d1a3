package cache

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// assemble puts together the answer for l after all flights have landed.
func (c *Cache) assemble(ctx context.Context, l *lookup) (*selection.Selection, annotations.Annotations, error) {
	var ws annotations.Annotations
	for _, f := range l.flights {
		ws.Merge(f.ws) // into a map of its own; those of flights are shared
	}
	if l.kept.From <= l.want.From && l.kept.To >= l.want.To {
		// What is kept has chunks that later queries get, too.
		if sel, covered, ok := c.covering(l.entry, l.kept, l.moment); ok {
			return covered.From(l.entry.key, sel), ws, nil
		}
	}
	for _, f := range l.flights {
		if f.From <= l.want.From && f.To >= l.want.To {
			return f.has.From(l.entry.key, f.sel), ws, nil
		}
	}
	sel, own, err := l.join(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.discard(l.entry)
		}
		return nil, ws, err
	}
	if own {
		sel.SetDiscard(func() { c.discard(l.entry) })
	}
	return l.revised().From(l.entry.key, sel), ws, nil
}

// join joins what was kept of what is wanted with what the flights brought, and reports
// whether that made a selection of its own.
func (l *lookup) join(ctx context.Context) (sel *selection.Selection, own bool, err error) {
	inputs := make([]tile.Input, 0, len(l.flights)+1)
	if l.sel != nil {
		base := l.sel
		if first, last := l.covered[0].From, l.covered[len(l.covered)-1].To; last-first > 2*(l.want.To-l.want.From) {
			base = base.Slice(l.want.From, l.want.To-1) // there is less to join
		}
		// The rest has been fetched again, and so may some of that have been which is
		// usable, beside what is not.
		if base, err = tile.Restrict(ctx, base, l.covered.All(), l.left().All()); err != nil {
			return nil, false, err
		}
		inputs = append(inputs, tile.Input{From: l.covered[0].From, Sel: base})
	}
	for _, f := range l.flights {
		inputs = append(inputs, tile.Input{From: f.From, Sel: f.sel})
	}
	if sel, err = tile.Join(ctx, inputs); err != nil {
		return nil, false, err
	}
	return sel, !slices.ContainsFunc(inputs, func(in tile.Input) bool { return in.Sel == sel }), nil
}

// left is what was kept that is usable and that no flight was for.
func (l *lookup) left() tile.Coverage {
	left := l.covered.Usable(l.moment)
	for _, f := range l.flights {
		left = left.Without(f.Span)
	}
	return left
}

// covering returns e's selection, and what it covers that answers at m, if that
// covers s.
func (c *Cache) covering(e *entry, s tile.Span, m tile.Moment) (*selection.Selection, tile.Coverage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	usable := e.covered.Usable(m)
	return e.sel, usable, len(usable.All().Missing(s)) == 0
}

// Every flight has a revision of its own, which the tiles that it brings have as
// long as they are kept. So tiles that were fetched again, because they were too
// old, dropped or evicted, or that come from disk or a wider selector, have another
// one than before, whether or not their samples have changed.

// revisions is the last revision given away, in all caches.
var revisions atomic.Uint64

// revised is what a joined selection has of what was kept, or of one flight, alone. Chunks of a
// flight may reach into what another has, with samples that the upstream has got since.
func (l *lookup) revised() tile.Coverage {
	all, extents := l.left(), tile.Spans(nil)
	for _, f := range l.flights {
		all = all.Without(tile.Extent(f.sel))
		for _, s := range tile.Without(f.has, extents) {
			all = all.Having(s)
		}
		extents = append(extents, tile.Extent(f.sel))
	}
	return all
}
