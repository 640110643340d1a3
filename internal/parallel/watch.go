package parallel

import (
	"context"
	"runtime"
	"time"
)

const (
	// slice is how long work goes on before it yields. The runtime would give it 10 ms: where dozens
	// are at work a request that takes 1 ms would wait for a second, as each of the handful of
	// goroutines that it passes through would wait until all those before it had their 10 ms.
	slice = time.Millisecond
	// lost is after how long a turn ends whose holder neither passes a point nor leaves, since it
	// waits for something else. Where the process gets little of its cores, a millisecond's work
	// takes several.
	lost = 30 * time.Millisecond
	// watchEvery is how many steps of a loop pass between two looks at the clock and the context.
	// A step is a series, a chunk or a sample, which take less than 10 us each.
	watchEvery = 64
)

// turns has an element for each goroutine that has a turn: two for each core, since some who have
// one wait for something else, such as a loop in another goroutine, or have one in a loop around
// this one. Senders wait in the order in which they came, and so are not ready to run:
// a loop with little to do waits for those few and not for dozens.
var turns = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// Watch has a long loop let other work have the core, and tells it whether the context has ended
// that its result is for. It is for one goroutine. The zero value never ends.
type Watch struct {
	Ctx   context.Context // may be nil
	steps uint
	since time.Time   // the last yield
	turn  *time.Timer // ends the turn; nil without one
	over  error       // the context's error once it was seen
}

// Err returns the context's error if it has ended, and yields as Pass does. It looks at both now and
// then only, so that it may be asked at every step of a loop.
func (w *Watch) Err() error {
	if w.steps++; w.steps%watchEvery == 0 {
		w.Pass()
		return w.Now()
	}
	return w.over
}

// Now looks at the context at once.
func (w *Watch) Now() error {
	if w.Ctx != nil && w.over == nil {
		w.over = w.Ctx.Err()
	}
	return w.over
}

// Pass yields if a millisecond has passed since it did so last, and then waits for a turn unless the
// context ends. It is for loops whose steps take 1 us to 1 ms. A loop that has ended, or is about
// to wait for something, should call Leave.
func (w *Watch) Pass() {
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
	}
	if now.Sub(w.since) < slice {
		return
	}
	w.Leave()
	var over <-chan struct{}
	if w.Ctx != nil {
		over = w.Ctx.Done()
	}
	select {
	case turns <- struct{}{}:
		runtime.Gosched() // to loops that have little to do
		w.turn = time.AfterFunc(lost, func() { <-turns })
	case <-over:
	}
	w.since = time.Now()
}

// Leave lets others have the core at once that Pass had this goroutine wait for: it ends a turn that
// is not lost. A Pass after a millisecond waits for another.
func (w *Watch) Leave() {
	if w.turn != nil && w.turn.Stop() {
		<-turns
	}
	w.turn = nil
}

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
