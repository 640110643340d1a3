// Package parallel spreads work over the cores.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/internal/rescue"
)

// For calls f for every i below n, from a goroutine a core, and returns when all
// calls have. Where there is one core or one call it makes no goroutine. A panic in f is
// raised again in the caller's goroutine, once the calls under way have returned.
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
	var panics rescue.Catcher
	for range workers {
		wg.Go(func() {
			defer panics.Catch()
			for i := int(next.Add(1)) - 1; i < n && !panics.Caught(); i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
	panics.Rethrow()
}
