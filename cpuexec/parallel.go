package cpuexec

import (
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/internal/rescue"
)

// inlineSamples is the number of samples below which starting goroutines costs
// more than it saves.
const inlineSamples = 20_000

// Each calls f(i) for every i below n, from several goroutines where the work,
// given as the number of values it goes over, is worth it.
func (x *Executor) Each(n, values int, f func(i int)) {
	parallel(x.workersFor(values), n, func(_, i int) bool { f(i); return true })
}

// parallel calls f(worker, i) for every i below n from the given number of
// goroutines, until f returns false. It returns when all calls have. A panic in
// f is raised again in the caller's goroutine, where Prometheus's engine turns
// it into the error of one query.
func parallel(workers, n int, f func(worker, i int) bool) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			if !f(0, i) {
				return
			}
		}
		return
	}
	var next atomic.Int64
	var panics rescue.Catcher
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			defer panics.Catch()
			for !panics.Caught() {
				i := int(next.Add(1)) - 1
				if i >= n || !f(k, i) {
					return
				}
			}
		})
	}
	wg.Wait()
	panics.Rethrow()
}
