// Package parallel spreads work over the cores.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// For calls f for every i below n, from a goroutine a core, and returns when all
// calls have. Where there is one core or one call it makes no goroutine.
func For(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
