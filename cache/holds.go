package cache

import "slices"

// holds are what one querier got and may still read. Its memory would not be free
// if it were evicted. They are guarded by the cache's mutex.
type holds []hold

type hold struct {
	entry *entry
	span  *span
}

// add holds s of what is kept of e.
func (h *holds) add(e *entry, s span) {
	if h == nil || s.empty() {
		return
	}
	*h = append(*h, hold{e, &s})
	e.held = append(e.held, &s)
}

// release ends all holds.
func (c *Cache) release(h *holds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range *h {
		if i := slices.Index(one.entry.held, one.span); i >= 0 {
			one.entry.held = slices.Delete(one.entry.held, i, i+1)
		}
	}
	*h = nil
}
