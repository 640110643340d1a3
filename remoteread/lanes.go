package remoteread

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lanes bound the requests in flight. Small ones have places of their own besides those that
// all share, and of those that wait they go first, so that those of a dashboard's newest
// minutes, or of an alert, do not wait for days of many series that others want; but now and
// then a large one goes, too. Within a lane who came first goes first.
type lanes struct {
	mu    sync.Mutex
	free  [places]int  // of each kind of place
	small []chan place // that wait
	large []chan place
	row   int // small ones that went before a large one that waits
}

// place is a kind of place: who has one may send.
type place int

const (
	shared    place = iota // for all
	smallOnly              // for small ones alone
	places
)

const (
	// smallSpan and smallSeries are what a small request asks for at most. How many series
	// will come is known of selectors that are kept.
	smallSpan   = 15 * time.Minute
	smallSeries = 10_000
	// mostInRow is how many small requests go before a large one.
	mostInRow = 8
)

// newLanes returns lanes with so many places for all, and half as many for small requests.
func newLanes(concurrency int) *lanes {
	return &lanes{free: [places]int{shared: concurrency, smallOnly: (concurrency + 1) / 2}}
}

// enter waits until a request may be sent, and gives up when ctx ends unless its turn comes at the
// same time. The place must be left when the request has been answered.
func (l *lanes) enter(ctx context.Context, small bool) (place, error) {
	l.mu.Lock()
	lane, first := &l.large, shared
	if small {
		lane, first = &l.small, smallOnly
	}
	for p := first; p >= shared; p-- {
		if l.free[p] > 0 {
			l.free[p]--
			l.mu.Unlock()
			return p, nil
		}
	}
	turn := make(chan place, 1)
	*lane = append(*lane, turn)
	l.mu.Unlock()
	select {
	case p := <-turn:
		return p, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(*lane, turn); i >= 0 {
		*lane = slices.Delete(*lane, i, i+1)
		return 0, ctx.Err()
	}
	return <-turn, nil
}

// leave gives a place to the next request.
func (l *lanes) leave(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane, toLarge := &l.small, p == shared && len(l.large) > 0
	switch {
	case toLarge && (len(l.small) == 0 || l.row >= mostInRow):
		lane, l.row = &l.large, 0
	case len(l.small) == 0:
		l.free[p]++
		return
	case toLarge:
		l.row++
	}
	next := (*lane)[0]
	*lane = (*lane)[1:]
	next <- p
}
