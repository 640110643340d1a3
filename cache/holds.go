package cache

import (
	"context"
	"slices"

	"github.com/promwarp/promwarp/cache/tile"
)

// holds are what one querier got and may still read. Its memory would not be free
// if it were evicted. They are guarded by the cache's mutex.
type holds struct {
	all   []hold
	begun []*lookup // with flights; see lookup.got
}

type hold struct {
	entry *entry
	span  *tile.Span
}

// add holds s of what is kept of e.
func (h *holds) add(e *entry, s tile.Span) {
	if h == nil || s.Empty() {
		return
	}
	h.all = append(h.all, hold{e, &s})
	e.held = append(e.held, &s)
}

// begin notes that l's flights are to be waited for. The cache's mutex must be held.
func (h *holds) begin(l *lookup) {
	if h != nil {
		h.begun = append(h.begun, l)
	}
}

// release ends all holds, and gives up what was begun and never got.
func (c *Cache) release(h *holds) {
	for _, l := range h.begun {
		if !l.got {
			c.leave(context.Background(), l.flights)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range h.all {
		one.entry.held = slices.DeleteFunc(one.entry.held, func(s *tile.Span) bool { return s == one.span })
	}
	*h = holds{}
}
