// Package parallel spreads work over the cores.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/internal/yield"
)

// For calls f for every i below n, from a goroutine a core, and returns when all
// calls have. Where there is one core or one call it makes no goroutine. A panic in f is
// raised again in the caller's goroutine, once the calls under way have returned.
func For(n int, f func(i int)) {
	While(runtime.GOMAXPROCS(0), n, func(_, i int) bool { f(i); return true })
}

// While calls f(worker, i) for every i below n from so many goroutines, of which each is a
// worker with a number below workers, as long as f returns true: a worker whose call
// returns false makes no more, and the calls of the others go on. It returns when all
// calls have. A panic in f is raised again in the caller's goroutine, once the calls under
// way have returned. Between calls it lets other work have the cores.
func While(workers, n int, f func(worker, i int) bool) {
	if workers = min(workers, n); workers <= 1 {
		var point yield.Point
		defer point.Leave()
		for i := range n {
			if !f(0, i) {
				return
			}
			point.Pass()
		}
		return
	}
	var next atomic.Int64
	var panics rescue.Catcher
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			defer panics.Catch()
			var point yield.Point
			defer point.Leave()
			for !panics.Caught() {
				i := int(next.Add(1)) - 1
				if i >= n || !f(worker, i) {
					return
				}
				point.Pass()
			}
		})
	}
	wg.Wait()
	panics.Rethrow()
}
