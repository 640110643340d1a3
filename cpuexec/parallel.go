package cpuexec

import "github.com/promwarp/promwarp/internal/parallel"

// inlineSamples is the number of samples below which starting goroutines costs
// more than it saves.
const inlineSamples = 20_000

// Each calls f(i) for every i below n, from several goroutines where the work,
// given as the number of values it goes over, is worth it.
func (x *Executor) Each(n, values int, f func(i int)) {
	parallel.While(workersFor(x.workers, values), n, func(_, i int) bool { f(i); return true })
}

// workersFor is the number of goroutines, at most the given one, worth starting for so many
// values.
func workersFor(workers, values int) int {
	if values < inlineSamples {
		return 1
	}
	return workers
}
