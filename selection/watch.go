package selection

import (
	"context"

	"github.com/promwarp/promwarp/internal/yield"
)

// watchEvery is how many steps of a loop pass between two looks at a context. A step is
// a series, a chunk or a sample, which take less than 10 us each.
const watchEvery = 64

// watch tells loops whether the context has ended that their result is for, and has them
// yield the core. It looks at the context now and then only, so that it may be asked at every step. The zero value
// never ends.
type watch struct {
	ctx   context.Context
	steps uint
	point yield.Point
	over  error // the context's error once it was seen
}

// err returns the context's error if it has ended.
func (w *watch) err() error {
	if w.steps++; w.steps%watchEvery == 0 {
		w.point.Pass()
		if w.ctx != nil && w.over == nil {
			w.over = w.ctx.Err()
		}
	}
	return w.over
}

// comparing returns a comparison for sorting that calls all equal once the context has
// ended, so that the sorting ends soon. Its result is of no use then; see now.
func comparing[T any](w *watch, compare func(a, b T) int) func(a, b T) int {
	return func(a, b T) int {
		if w.err() != nil {
			return 0
		}
		return compare(a, b)
	}
}

// now looks at the context at once.
func (w *watch) now() error {
	if w.ctx != nil && w.over == nil {
		w.over = w.ctx.Err()
	}
	return w.over
}
