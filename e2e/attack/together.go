package main

import (
	"context"
	"sync"
	"sync/atomic"
)

// together calls ask for each of n, at most width at once, and returns the results in order.
// Once ctx is done it calls no more of them.
func together[T any](ctx context.Context, width, n int, ask func(ctx context.Context, i int) T) []T {
	results := make([]T, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(width, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				results[i] = ask(ctx, i)
			}
		})
	}
	wg.Wait()
	return results[:min(int(next.Load()), n)]
}
