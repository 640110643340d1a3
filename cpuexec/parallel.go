package cpuexec

import (
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
)

// Each calls f(i) for every i below n, from several goroutines where the work,
// given as the number of values it goes over, is worth it.
func (x *Executor) Each(n, values int, f func(i int)) {
	parallel.While(operator.WorkersFor(x.workers, values), n, func(_, i int) bool { f(i); return true })
}
