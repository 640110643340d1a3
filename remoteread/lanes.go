package remoteread

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/promwarp/promwarp/selection"
)

// lanes bound the requests in flight. Small ones have places of their own besides those that
// all share, and of those that wait they go first, so that those of a dashboard's newest
// minutes, or of an alert, do not wait for days of many series that others want; but now and
// then a large one goes, too. Within a lane who came first goes first.
type lanes struct {
	mu          sync.Mutex
	free        [places]int // of each kind of place
	small       []*ride     // that wait; each receives its turn
	large       []*ride
	concurrency int // places for all
	row         int // small ones that went before a large one that waits
}

// place is a kind of place: who has one may send.
type place int

const (
	shared    place = iota // for all
	smallOnly              // for small ones alone
	places
	passenger // of those whose question goes in another one's request
)

// turn is what a ride waits for: a place, and the rides that go in the same request.
type turn struct {
	place place
	mates []*ride
}

const (
	// smallSpan and smallSeries are what a small request asks for at most. How many series
	// will come is known of selectors that are kept.
	smallSpan   = 15 * time.Minute
	smallSeries = 10_000
	// mostInRow is how many small requests go before a large one.
	mostInRow = 8
	// manyWaiting is how many must wait for each place before some go together: a store answers the
	// questions of one request on one core, so few had better wait for their own.
	manyWaiting = 2
	// mostTogether is the most questions of one request. Each may make several queries of it.
	mostTogether = 128
)

// newLanes returns lanes with so many places for all, and half as many for small requests.
func newLanes(concurrency int) *lanes {
	return &lanes{free: [places]int{shared: concurrency, smallOnly: (concurrency + 1) / 2}, concurrency: concurrency}
}

// enter waits until the question of r may be sent, and gives up when ctx ends unless its turn comes
// at the same time. A place must be left when the request has been answered.
func (l *lanes) enter(ctx context.Context, r *ride) (turn, error) {
	l.mu.Lock()
	lane, first := &l.large, shared
	if r.q.small(selection.Expected(ctx)) {
		lane, first = &l.small, smallOnly
	}
	for p := first; p >= shared; p-- {
		if l.free[p] > 0 {
			l.free[p]--
			l.mu.Unlock()
			return turn{place: p}, nil
		}
	}
	r.turn = make(chan turn, 1)
	*lane = append(*lane, r)
	l.mu.Unlock()
	select {
	case t := <-r.turn:
		return t, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(*lane, r); i >= 0 {
		*lane = slices.Delete(*lane, i, i+1)
		return turn{}, ctx.Err()
	}
	return <-r.turn, nil
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
	lead := (*lane)[0]
	*lane = (*lane)[1:]
	t := turn{place: p}
	*lane, t.mates = l.share(lead, *lane)
	lead.turn <- t
}

// share takes rides that wait behind lead along in its request, if manyWaiting wait for each place:
// as many as leave each other request in flight as much to do. So a request that waits is never
// behind more than would have been asked before it anyway.
func (l *lanes) share(lead *ride, waiting []*ride) (left, mates []*ride) {
	n := min(len(waiting)/l.concurrency, mostTogether-1)
	if n < manyWaiting {
		n = 0
	}
	for i, r := range waiting {
		if len(mates) >= n {
			return append(left, waiting[i:]...), mates
		}
		if r.q.goesWith(&lead.q) {
			mates = append(mates, r)
			r.turn <- turn{place: passenger}
		} else {
			left = append(left, r)
		}
	}
	return left, mates
}

// small reports whether the answer to q is likely to be small.
func (q question) small(e selection.Expectation) bool {
	return q.maxt-q.mint < smallSpan.Milliseconds() && len(e.Series) <= smallSeries
}
