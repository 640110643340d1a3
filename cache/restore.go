package cache

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/selection"
)

// restore sees to it that the entry of a selector has what there is of it on
// disk, if it has nothing yet. Concurrent queries wait for one another.
func (c *Cache) restore(ctx context.Context, key string, matchers []*labels.Matcher) error {
	if c.disk == nil || !c.disk.Touch(key) {
		return nil
	}
	c.mu.Lock()
	e := c.use(key, matchers)
	if e.sel == nil && len(e.flights) == 0 && e.restoring == nil {
		e.restoring = make(chan struct{})
		go c.load(e)
	}
	restoring := e.restoring
	c.mu.Unlock()
	if restoring == nil {
		return nil
	}
	select {
	case <-restoring:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load gives e what there is of it on disk.
func (c *Cache) load(e *entry) {
	c.files.RLock()
	defer c.files.RUnlock()
	sel, covered, err := c.read(e.key)
	if err != nil {
		// It has been dropped already; see selection.Selection.Discard.
		c.log.Warn("Could not use what is on disk of a selector; it is fetched again", "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.restoring)
	e.restoring = nil
	if sel != nil && !e.removed && e.sel == nil && sizeOf(e.key, sel, covered) <= c.limit {
		sel.SetDiscard(func() { c.discard(e) })
		c.set(e, sel, covered)
		c.metrics.restored.add(covered.all().tiles(c.tile))
		c.evict(e)
	}
	c.tidy(e)
}

// read puts together what the files of a selector have that may still be used.
// It returns nil if there is nothing.
func (c *Cache) read(key string) (*selection.Selection, coverage, error) {
	var parts []part
	var covered coverage
	files := c.disk.Load(key)
	for _, f := range slices.Backward(files) { // the newest first: it is right
		has := coverageOf(f.Covered)
		use := has.within(c.settled(), c.oldest())
		for _, s := range covered {
			use = use.without(s.span)
		}
		if len(use) == 0 {
			continue
		}
		f.Selection.SetDiscard(func() { c.forget(key) })
		cut, err := restrict(f.Selection, has.all(), use.all())
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
	sel, err := join(parts)
	if err != nil {
		return nil, nil, err
	}
	return sel.Remember(covered[len(covered)-1].to), covered, nil
}

// coverageOf is what a file covers.
func coverageOf(stretches []disk.Stretch) (cs coverage) {
	for _, s := range stretches {
		cs = append(cs, stretch{span{s.From, s.To}, s.At})
	}
	return cs
}
