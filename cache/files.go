package cache

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

const (
	saveRetry = 30 * time.Second
	saveGrace = time.Second // for what is still to be written when the cache is closed
)

// write writes what is kept of a selector and not on disk yet, and reports whether there
// was anything. When ctx ends there was not.
func (c *Cache) write(ctx context.Context, key string) (wrote bool, err error) {
	c.files.RLock()
	defer c.files.RUnlock()
	c.mu.Lock()
	e := c.entries[key]
	if e == nil || e.sel == nil {
		c.mu.Unlock()
		return false, nil // evicted meanwhile
	}
	sel, covered := e.sel, e.covered
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.unwrite = cancel
	c.mu.Unlock()
	// What is young is not worth a file.
	written, replaces := disk.Plan(covered.Old(), sel.PayloadBytes(), c.moment(), c.disk.Files(key))
	if len(written) == 0 {
		return false, nil
	}
	part, err := tile.Restrict(ctx, sel, covered, written)
	if err != nil {
		return false, nil // a corrupt chunk; reading it has dropped the entry
	}
	switch err = c.disk.Put(ctx, key, written, part, replaces); {
	case errors.Is(err, disk.ErrTooLarge), errors.Is(err, disk.ErrClosed), err != nil && ctx.Err() != nil:
		return false, nil
	case err != nil:
		c.metrics.unsaved.Inc()
	default:
		c.metrics.saved.Add(float64(part.PayloadBytes()))
	}
	return true, err
}

// onDisk lists what files have of e that may answer at m. The cache's mutex must be held.
func (c *Cache) onDisk(e *entry, m tile.Moment) tile.Coverage {
	var there tile.Coverage
	for _, f := range c.disk.Files(e.key) {
		for _, s := range f.Covered.Usable(m) {
			there = there.Having(s)
		}
	}
	return there.All()
}

// restore answers f from files, if they have all of it. It fails if there is no memory for it, or
// no query waits any more.
func (c *Cache) restore(f *flight) error {
	c.files.RLock()
	defer c.files.RUnlock()
	sel, covered, err := c.read(f.ctx, f.entry.key, f.Span)
	switch {
	case f.ctx.Err() != nil:
		return f.ctx.Err()
	case memory.Exhausted(err):
		return err
	case err != nil:
		// It has been dropped already; see selection.Selection.Discard.
		c.log.Warn("Could not use what is on disk of a selector; it is fetched again", "err", err)
	case len(covered.Missing(f.Span)) == 0:
		f.sel, f.has = sel, covered
		tiles := covered.Tiles(c.tile)
		c.metrics.restored.Add(float64(tiles))
		c.metrics.hits.Add(float64(tiles))
		c.metrics.hitBytes.Add(float64(sel.PayloadBytes()))
		for _, s := range []*selection.Stats{f.fetch.Stats, f.fetch.Own} {
			s.TilesHit.Add(tiles)
			s.TilesRead.Add(tiles)
		}
	}
	return nil
}

// read puts together what the files of a selector have of s that may still be used.
func (c *Cache) read(ctx context.Context, key string, s tile.Span) (*selection.Selection, tile.Coverage, error) {
	var parts []tile.Input
	var covered tile.Coverage
	m := c.moment()
	for _, f := range slices.Backward(c.disk.Files(key)) { // the newest first: it is right
		use := f.Covered.Usable(m).Within(s).Less(covered)
		if len(use) == 0 {
			continue
		}
		sel, err := c.disk.Load(ctx, f, tile.Span{From: use[0].From, To: use[len(use)-1].To})
		if sel == nil {
			return nil, nil, err // it is gone, or cannot be read
		}
		sel.OnDiscard = func() { _ = c.disk.Drop(key) } // says in the log what is wrong
		cut, err := tile.Restrict(ctx, sel, f.Covered, use)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, tile.Input{From: use[0].From, Sel: cut})
		for _, s := range use {
			covered = covered.Having(s)
		}
	}
	sel, err := tile.Join(ctx, parts)
	return sel, covered, err
}
