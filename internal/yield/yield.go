// Package yield has long work let others have the core now and then.
//
// The runtime gives a goroutine 10 ms before another has its turn, so where dozens are at
// work a request that takes 1 ms waits for a second: for each of the handful of goroutines
// that it passes through, until all those before it had their 10 ms. Work that calls
// Point.Pass often yields every millisecond, and of such work only two pieces a core are ready to
// run; the rest waits for its turn. Where nobody waits, that costs 0.3 us.
//
// Start with Point.
package yield

import (
	"runtime"
	"time"
)

const (
	// slice is how long work goes on before it yields.
	slice = time.Millisecond
	// looks is how often a clock is read in that time.
	looks = 4
	// mostSkipped bounds the calls between two looks at the clock.
	mostSkipped = 1 << 10
)

// Point is a place in a loop where others may have the core. The zero value is ready for use,
// by one goroutine.
type Point struct {
	// Over is closed when the work is to stop, so that it need not wait for its turn to do so; it may
	// be nil.
	Over          <-chan struct{}
	skip, skipped int       // calls until the next look at the clock, and since the last one
	looked, since time.Time // the last look, and the last yield
	turn          uint64    // of turns; 0 for none
}

// Pass yields if a millisecond has passed since it did so last. It is for loops whose steps
// take a millisecond at most. A loop that has ended, or is about to wait for something, should
// call Leave.
func (p *Point) Pass() {
	if p.skip--; p.skip >= 0 {
		return
	}
	p.look(time.Now())
}

// Leave lets others have the core at once that Pass had this goroutine wait for. The next Pass
// waits for it again.
func (p *Point) Leave() {
	if p.turn != 0 {
		all.leave(p.turn)
		p.turn, p.skip, p.skipped, p.since = 0, 0, 0, time.Time{}
	}
}

// look yields if it is time, and decides when to look again, by how long the calls since the
// last look took.
func (p *Point) look(now time.Time) {
	calls, took := p.skipped+1, now.Sub(p.looked)
	switch {
	case p.looked.IsZero():
		p.since, p.skipped = now, 0
	case now.Sub(p.since) >= slice:
		p.turn = all.next(p.turn, p.Over)
		runtime.Gosched() // to those that have little to do
		if p.turn != 0 {
			all.start(p.turn)
		}
		now = time.Now()
		p.since = now
		fallthrough
	default:
		p.skipped = mostSkipped
		if each := took / time.Duration(calls); each > 0 {
			p.skipped = min(mostSkipped, int(slice/looks/each))
		}
	}
	p.skip, p.looked = p.skipped, now
}
