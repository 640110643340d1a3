package yield

import (
	"context"
)

// watchEvery is how many steps of a loop pass between two looks at a context. A step is
// a series, a chunk or a sample, which take less than 10 us each.
const watchEvery = 64

// Watch tells loops whether the context has ended that their result is for, and has them
// yield the core. It looks at the context now and then only, so that it may be asked at every step.
// The zero value never ends.
type Watch struct {
	Ctx   context.Context // may be nil
	steps uint
	point Point
	over  error // the context's error once it was seen
}

// Err returns the context's error if it has ended.
func (w *Watch) Err() error {
	if w.steps++; w.steps%watchEvery == 0 {
		if w.Ctx != nil {
			w.point.Over = w.Ctx.Done()
		}
		w.point.Pass()
		_ = w.Now()
	}
	return w.over
}

// Leave is to be called when the loops have ended; see Point.Leave.
func (w *Watch) Leave() { w.point.Leave() }

// Comparing returns a comparison for sorting that calls all equal once the context has
// ended, so that the sorting ends soon. Its result is of no use then; see Now.
func Comparing[T any](w *Watch, compare func(a, b T) int) func(a, b T) int {
	return func(a, b T) int {
		if w.Err() != nil {
			return 0
		}
		return compare(a, b)
	}
}

// Now looks at the context at once.
func (w *Watch) Now() error {
	if w.Ctx != nil && w.over == nil {
		w.over = w.Ctx.Err()
	}
	return w.over
}
