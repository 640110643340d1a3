package cache

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/saving"
	"github.com/promwarp/promwarp/cache/tile"
)

const (
	saveRetry = 30 * time.Second
	saveGrace = time.Second // for what is still to be written when the cache is closed
)

// newSaver returns what writes to the disk of c.
func newSaver(c *Cache, retry, grace time.Duration) *saving.Saver {
	return saving.New(saving.Options{
		Write: c.write, Drop: c.disk.Drop, Retry: retry, Grace: grace,
		Failed: func() { c.metrics.unsaved.add(1) }, Logger: c.log,
	})
}

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
	c.mu.Unlock()
	// What is young is not worth a file.
	plan := saving.NewPlan(covered.Old(), c.moment(), c.disk.Files(key))
	if len(plan.Spans) == 0 {
		return false, nil
	}
	part, err := tile.Restrict(ctx, sel, covered.All(), plan.Spans)
	if err != nil {
		return false, nil // a corrupt chunk; reading it has dropped the entry
	}
	if plan.Merge(part.PayloadBytes()) {
		if part, err = tile.Restrict(ctx, sel, covered.All(), plan.Spans); err != nil {
			return false, nil
		}
	}
	switch err = c.disk.Put(ctx, key, plan.Stretches(), part, plan.Replaces); {
	case errors.Is(err, disk.ErrTooLarge), errors.Is(err, disk.ErrClosed), err != nil && ctx.Err() != nil:
		return false, nil
	case err == nil:
		c.metrics.saved.add(part.PayloadBytes())
	}
	return true, err
}
