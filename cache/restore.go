package cache

import (
	"context"
	"math"
	"slices"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/selection"
)

// onDisk lists the stretches that files have something of and e has not, as far as
// what is missing needs them. The cache's mutex must be held.
func (c *Cache) onDisk(e *entry, missing spans) (out spans) {
	if c.disk == nil || len(missing) == 0 || !c.disk.Touch(e.key, missing[0].from, missing[len(missing)-1].to) {
		return nil
	}
	m := c.moment()
	var there coverage
	for _, f := range c.disk.Files(e.key) {
		for _, s := range coverageOf(f.Covered).within(m.settled, m.oldest) {
			there = there.with(s.span, s.at)
		}
	}
	for _, f := range e.flights {
		there = there.without(f.old)
	}
	for _, s := range without(there, e.covered.usable(m).all()).all() {
		if slices.ContainsFunc(missing, func(m span) bool { return m.from < s.to && s.from < m.to }) {
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
	has := covered.within(f.whole, math.MinInt64)
	if sel == nil || len(has.all().missing(f.whole)) > 0 {
		return false
	}
	if f.sel, err = restrict(ctx, sel, covered.all(), has.all()); err != nil {
		return false
	}
	f.has = has
	c.metrics.restored.add(has.all().tiles(c.tile))
	return true
}

// read puts together what the files of a selector have that may still be used.
// It returns nil if there is nothing.
func (c *Cache) read(ctx context.Context, key string) (*selection.Selection, coverage, error) {
	var parts []part
	var covered coverage
	files, err := c.disk.Load(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	m := c.moment()
	for _, f := range slices.Backward(files) { // the newest first: it is right
		has := coverageOf(f.Covered)
		use := has.within(m.settled, m.oldest)
		for _, s := range covered {
			use = use.without(s.span)
		}
		if len(use) == 0 {
			continue
		}
		f.Selection.SetDiscard(func() { c.forget(key) })
		cut, err := restrict(ctx, f.Selection, has.all(), use.all())
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part{use[0].from, cut})
		for _, s := range use {
			covered = covered.with(s.span, s.at)
		}
	}
	if len(parts) == 0 {
		return nil, nil, nil
	}
	sel, err := join(ctx, parts)
	if err != nil {
		return nil, nil, err
	}
	return sel, covered, nil
}

// coverageOf is what a file covers.
func coverageOf(stretches []disk.Stretch) (cs coverage) {
	for _, s := range stretches {
		cs = append(cs, stretch{span: span{s.From, s.To}, at: s.At})
	}
	return cs
}
