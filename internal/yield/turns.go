package yield

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/promwarp/promwarp/internal/spin"
)

// lost is how long a turn lasts whose holder neither passes a point nor leaves, since it waits
// for something else. Where the process gets little of its cores, a millisecond's work takes
// several.
const lost = 30 * time.Millisecond

// all are the turns of the process.
var all turns

// turns are had by few goroutines at once. Others with long work wait for theirs, in the order
// in which they came, and so are not ready to run: whoever has little to do waits for those few
// and not for dozens. The zero value is ready for use, by any number of goroutines.
//
// Invariant: while somebody waits, all turns are had, or a look at them is due.
type turns struct {
	mu      sync.Mutex
	last    uint64 // number of the last turn that was handed out
	had     []turn // no more than most
	waiting []chan uint64
	due     bool // whether a look for lost turns is due
}

// turn is one that somebody has.
type turn struct {
	number uint64
	since  time.Time // zero before its holder runs
}

// next ends the turn with a number, 0 for none, and waits for another, which is to be started. Who
// is to stop, as over is closed, gets none, 0, and waits for none.
func (t *turns) next(number uint64, over <-chan struct{}) uint64 {
	spin.Lock(&t.mu)
	t.end(number)
	t.handOut()
	if len(t.had) < most() {
		defer t.mu.Unlock()
		return t.begin()
	}
	mine := make(chan uint64, 1)
	t.waiting = append(t.waiting, mine)
	t.lookLater()
	t.mu.Unlock()
	select {
	case number = <-mine:
		return number
	case <-over:
	}
	spin.Lock(&t.mu)
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		return 0
	}
	t.end(<-mine) // just before
	t.handOut()
	return 0
}

// start says that the holder of a turn runs.
func (t *turns) start(number uint64) {
	spin.Lock(&t.mu)
	defer t.mu.Unlock()
	for i := range t.had {
		if t.had[i].number == number {
			t.had[i].since = time.Now()
		}
	}
}

// leave ends a turn.
func (t *turns) leave(number uint64) {
	spin.Lock(&t.mu)
	defer t.mu.Unlock()
	t.end(number)
	t.handOut()
}

// end ends a turn, if it is not lost.
func (t *turns) end(number uint64) {
	t.had = slices.DeleteFunc(t.had, func(h turn) bool { return h.number == number })
}

// begin begins a turn.
func (t *turns) begin() uint64 {
	t.last++
	t.had = append(t.had, turn{number: t.last})
	return t.last
}

// handOut gives those who wait the turns that are free or lost.
func (t *turns) handOut() {
	now := time.Now()
	t.had = slices.DeleteFunc(t.had, func(h turn) bool { return !h.since.IsZero() && now.Sub(h.since) >= lost })
	for len(t.waiting) > 0 && len(t.had) < most() {
		t.waiting[0] <- t.begin()
		t.waiting = slices.Delete(t.waiting, 0, 1)
	}
}

// lookLater looks for lost turns in a while, and again as long as somebody waits.
func (t *turns) lookLater() {
	if t.due {
		return
	}
	t.due = true
	time.AfterFunc(lost, func() {
		spin.Lock(&t.mu)
		defer t.mu.Unlock()
		t.due = false
		if t.handOut(); len(t.waiting) > 0 {
			t.lookLater()
		}
	})
}

// most is how many turns are had at once: two for each core, since some who have one wait for
// something else, such as a loop in another goroutine, or have one in a loop around this one.
func most() int { return 2 * runtime.GOMAXPROCS(0) }
