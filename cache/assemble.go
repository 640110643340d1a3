package cache

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// assemble puts together the answer for want after all flights have landed.
func (c *Cache) assemble(ctx context.Context, want span, l lookup) (*selection.Selection, annotations.Annotations, error) {
	var ws annotations.Annotations
	for _, f := range l.flights {
		ws.Merge(f.ws) // into a map of its own; those of flights are shared
	}
	for _, f := range l.flights {
		if f.whole.from <= want.from && f.whole.to >= want.to {
			return f.brought().from(l.entry.key, f.sel), ws, nil
		}
	}
	if !l.more {
		if sel, covered, ok := c.covering(l.entry, l.kept, l.moment); ok {
			return covered.from(l.entry.key, sel), ws, nil
		}
	}
	sel, own, err := l.join(ctx, want)
	if err != nil {
		if ctx.Err() == nil {
			c.discard(l.entry)
		}
		return nil, ws, err
	}
	if own {
		sel.SetDiscard(func() { c.discard(l.entry) })
	}
	return l.untouched().from(l.entry.key, sel), ws, nil
}

// join joins what was kept of want with what the flights brought, and reports
// whether that made a selection of its own.
func (l *lookup) join(ctx context.Context, want span) (sel *selection.Selection, own bool, err error) {
	parts := make([]part, 0, len(l.flights)+1)
	if l.sel != nil {
		base := l.sel
		if first, last := l.covered[0].from, l.covered[len(l.covered)-1].to; last-first > 2*(want.to-want.from) {
			base = base.Slice(want.from, want.to-1) // there is less to join
		}
		// The rest has been fetched again, and so may some of that have been which is
		// usable, beside what is not.
		if base, err = restrict(ctx, base, l.covered.all(), l.left().all()); err != nil {
			return nil, false, err
		}
		parts = append(parts, part{l.covered[0].from, base})
	}
	for _, f := range l.flights {
		parts = append(parts, part{f.whole.from, f.sel})
	}
	if sel, err = join(ctx, parts); err != nil {
		return nil, false, err
	}
	return sel, !slices.ContainsFunc(parts, func(p part) bool { return p.sel == sel }), nil
}

// left is what was kept that is usable and that no flight was for.
func (l *lookup) left() coverage {
	left := l.covered.usable(l.moment)
	for _, f := range l.flights {
		left = left.without(f.whole)
	}
	return left
}

// restrict returns of sel, which covers have, what it has in keep, a part of
// that.
func restrict(ctx context.Context, sel *selection.Selection, have, keep spans) (*selection.Selection, error) {
	if slices.Equal(have, keep) {
		return sel, nil
	}
	parts := make([]part, 0, len(keep))
	for _, s := range keep {
		cut, err := sel.Cut(ctx, s.from, s.to-1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{s.from, cut})
	}
	return join(ctx, parts)
}

// part is a selection to be joined with others; from (ms) puts them in order.
type part struct {
	from int64
	sel  *selection.Selection
}

// join joins parts in time order, which spares selection.Join the sorting.
func join(ctx context.Context, parts []part) (*selection.Selection, error) {
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.from, b.from) })
	sels := make([]*selection.Selection, len(parts))
	for i, p := range parts {
		sels[i] = p.sel
	}
	return selection.Join(ctx, sels...)
}

// covering returns e's selection, and what it covers that answers at m, if that
// covers s.
func (c *Cache) covering(e *entry, s span, m moment) (*selection.Selection, coverage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	usable := e.covered.usable(m)
	return e.sel, usable, len(usable.all().missing(s)) == 0
}
