package remoteread

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/promwarp/promwarp/selection"
)

// lanes bound the requests in flight. Of those that wait small ones go first, so that those
// of a dashboard's newest minutes, or of an alert, do not wait for days of many series that
// others want; but now and then a large one goes, too. Within a lane who came first
// goes first.
type lanes struct {
	mu    sync.Mutex
	free  int
	small []chan struct{} // closed when it is the waiter's turn
	large []chan struct{}
	row   int // small ones that went before a large one that waits
}

const (
	// smallSpan and smallSeries are what a small request asks for at most. How many series
	// will come is known of selectors that are kept.
	smallSpan   = 15 * time.Minute
	smallSeries = 10_000
	// mostInRow is how many small requests go before a large one.
	mostInRow = 8
)

func newLanes(concurrency int) *lanes { return &lanes{free: concurrency} }

// enter waits until q may be sent. leave must be called when it has been answered.
func (l *lanes) enter(ctx context.Context, q question) error {
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return nil
	}
	lane := &l.large
	if q.small(selection.Expected(ctx)) {
		lane = &l.small
	}
	turn := make(chan struct{})
	*lane = append(*lane, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(*lane, turn); i >= 0 {
		*lane = slices.Delete(*lane, i, i+1)
	} else {
		l.next() // its turn came at the same time
	}
	return ctx.Err()
}

// leave lets the next request go.
func (l *lanes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next()
}

// next gives a place that is free to who is to go next. The mutex must be held.
func (l *lanes) next() {
	lane := &l.small
	switch {
	case len(l.large) > 0 && (len(l.small) == 0 || l.row >= mostInRow):
		lane, l.row = &l.large, 0
	case len(l.small) == 0:
		l.free++
		return
	case len(l.large) > 0:
		l.row++
	}
	close((*lane)[0])
	*lane = (*lane)[1:]
}

// small reports whether the answer to q is likely to be small.
func (q question) small(e selection.Expectation) bool {
	return q.maxt-q.mint < smallSpan.Milliseconds() && len(e.Series) <= smallSeries
}
