package cache

import (
	"context"
	"math"
	"slices"

	"github.com/promwarp/promwarp/cache/saving"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// onDisk lists the stretches that files have something of and e has not, as far as
// what is missing needs them. The cache's mutex must be held.
func (c *Cache) onDisk(e *entry, missing tile.Spans) (out tile.Spans) {
	if c.disk == nil || len(missing) == 0 || !c.disk.Touch(e.key, missing[0].From, missing[len(missing)-1].To) {
		return nil
	}
	m := c.moment()
	var there tile.Coverage
	for _, f := range c.disk.Files(e.key) {
		for _, s := range saving.CoverageOf(f.Covered).Within(m.Settled, m.Oldest) {
			there = there.With(s.Span, s.At)
		}
	}
	for _, f := range e.flights {
		there = there.Without(f.old)
	}
	for _, s := range tile.Without(there, e.covered.Usable(m).All()).All() {
		if slices.ContainsFunc(missing, func(m tile.Span) bool { return m.From < s.To && s.From < m.To }) {
			out = append(out, s)
		}
	}
	return out
}

// restore answers f from files, if they have all of it.
func (c *Cache) restore(ctx context.Context, f *flight) bool {
	if !f.files {
		return false
	}
	c.files.RLock()
	defer c.files.RUnlock()
	sel, covered, err := c.read(ctx, f.entry.key)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		// It has been dropped already; see selection.Selection.Discard.
		c.log.Warn("Could not use what is on disk of a selector; it is fetched again", "err", err)
		return false
	}
	has := covered.Within(f.whole, math.MinInt64)
	if sel == nil || len(has.All().Missing(f.whole)) > 0 {
		return false
	}
	if f.sel, err = tile.Restrict(ctx, sel, covered.All(), has.All()); err != nil {
		return false
	}
	f.has = has
	c.metrics.restored.add(has.All().Tiles(c.tile))
	return true
}

// read puts together what the files of a selector have that may still be used.
// It returns nil if there is nothing.
func (c *Cache) read(ctx context.Context, key string) (*selection.Selection, tile.Coverage, error) {
	var parts []tile.Input
	var covered tile.Coverage
	files, err := c.disk.Load(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	m := c.moment()
	for _, f := range slices.Backward(files) { // the newest first: it is right
		has := saving.CoverageOf(f.Covered)
		use := has.Within(m.Settled, m.Oldest)
		for _, s := range covered {
			use = use.Without(s.Span)
		}
		if len(use) == 0 {
			continue
		}
		f.Selection.SetDiscard(func() { c.forget(key) })
		cut, err := tile.Restrict(ctx, f.Selection, has.All(), use.All())
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, tile.Input{From: use[0].From, Sel: cut})
		for _, s := range use {
			covered = covered.With(s.Span, s.At)
		}
	}
	if len(parts) == 0 {
		return nil, nil, nil
	}
	sel, err := tile.Join(ctx, parts)
	if err != nil {
		return nil, nil, err
	}
	return sel, covered, nil
}
