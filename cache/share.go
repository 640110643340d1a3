package cache

import (
	"context"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cache/tile"
)

type sharedKey struct{}

// Shared returns a context whose queries may see the newest samples as a fetch brought them that
// began up to window ago, if that was for a query in such a context and up to the same time, or
// began after the time that they end at. So the reads of one evaluation of rules make one fetch
// a selector. 0 shares nothing.
func Shared(ctx context.Context, window time.Duration) context.Context {
	return context.WithValue(ctx, sharedKey{}, window.Milliseconds())
}

// windowOf is the window of ctx in ms.
func windowOf(ctx context.Context) int64 {
	ms, _ := ctx.Value(sharedKey{}).(int64)
	return ms
}

// useful are the flights of e that a query at m may use: those under way, and those that have
// landed which began no longer than window (ms) ago. The cache's mutex must be held.
func (e *entry) useful(m tile.Moment, window int64) []*flight {
	all := e.flights
	for _, f := range e.landed {
		if window > 0 && m.Now-f.moment.Now <= window {
			all = append(slices.Clip(all), f)
		}
	}
	return all
}

// share lets queries use f, which has landed with the newest samples, for as long as its window
// is. The cache's mutex must be held.
func (c *Cache) share(f *flight) {
	if f.window == 0 || f.err != nil || len(f.ws) > 0 || f.void || f.whole.To <= f.moment.Settled.To {
		return
	}
	f.entry.landed = append(f.entry.landed, f)
	time.AfterFunc(time.Duration(f.window)*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f.entry.landed = slices.DeleteFunc(f.entry.landed, func(other *flight) bool { return other == f })
		c.tidy(f.entry)
	})
}
