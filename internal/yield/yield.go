// Package yield has long work let others have the core now and then.
//
// The runtime gives a goroutine 10 ms before another has its turn, so where dozens are at
// work a request that takes 1 ms waits for a second: for each of the handful of goroutines
// that it passes through, until all those before it had their 10 ms. Work that calls
// Point.Pass often yields every millisecond, and of such work only two pieces a core are ready to
// run; the rest waits for its turn.
//
// Start with Point.
package yield

import (
	"context"
	"runtime"
	"time"
)

const (
	// slice is how long work goes on before it yields.
	slice = time.Millisecond
	// mostSkipped bounds the calls between two looks at the clock, which takes 50 ns.
	mostSkipped = 1 << 10
	// lost is after how long a turn ends whose holder neither passes a point nor leaves, since it
	// waits for something else. Where the process gets little of its cores, a millisecond's work
	// takes several.
	lost = 30 * time.Millisecond
	// watchEvery is how many steps of a loop pass between two looks at a context. A step is
	// a series, a chunk or a sample, which take less than 10 us each.
	watchEvery = 64
)

// turns has an element for each goroutine that has a turn: two for each core, since some who have
// one wait for something else, such as a loop in another goroutine, or have one in a loop around
// this one. Those that send wait in the order in which they came, and so are not ready to run:
// whoever has little to do waits for those few and not for dozens.
var turns = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// Point is a place in a loop where others may have the core. The zero value is ready for use,
// by one goroutine.
type Point struct {
	// Over is closed when the work is to stop, so that it need not wait for its turn to do so; it may
	// be nil.
	Over          <-chan struct{}
	skip, skipped int         // calls until the next look at the clock, and between the last two
	looked, since time.Time   // the last look, and the last yield
	turn          *time.Timer // ends the turn; nil without one
}

// Pass yields if a millisecond has passed since it did so last. It is for loops whose steps
// take a millisecond at most. A loop that has ended, or is about to wait for something, should
// call Leave.
func (p *Point) Pass() {
	if p.skip--; p.skip >= 0 {
		return
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	if now.Sub(p.looked) < slice/8 {
		p.skipped = min(2*p.skipped+1, mostSkipped)
	} else {
		p.skipped /= 4
	}
	p.skip, p.looked = p.skipped, now
	if now.Sub(p.since) >= slice {
		p.next()
	}
}

// next waits for the next turn, unless the work is over.
func (p *Point) next() {
	p.Leave()
	select {
	case turns <- struct{}{}:
		runtime.Gosched() // to those that have little to do
		p.turn = time.AfterFunc(lost, func() { <-turns })
	case <-p.Over:
	}
	p.since = time.Now()
	p.looked = p.since
}

// Leave lets others have the core at once that Pass had this goroutine wait for: it ends a turn that
// is not lost. A Pass after a millisecond waits for another.
func (p *Point) Leave() {
	if p.turn != nil && p.turn.Stop() {
		<-turns
	}
	p.turn = nil
}

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

// Now looks at the context at once.
func (w *Watch) Now() error {
	if w.Ctx != nil && w.over == nil {
		w.over = w.Ctx.Err()
	}
	return w.over
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
