package remoteread

import (
	"context"
	"time"
)

// lanes bound the requests in flight. Small ones have places of their own besides those that
// all share, so that those of a dashboard's newest minutes, or of an alert, do not wait for days
// of many series that others want. Who came first goes first.
type lanes struct{ shared, small chan struct{} }

// smallSpan and smallSeries are what a small request asks for at most. How many series
// will come is known of selectors that are kept.
const (
	smallSpan   = 15 * time.Minute
	smallSeries = 10_000
)

// newLanes returns lanes with so many places for all, and half as many for small requests.
func newLanes(concurrency int) lanes {
	return lanes{make(chan struct{}, concurrency), make(chan struct{}, (concurrency+1)/2)}
}

// enter waits until a request may be sent, or until ctx ends. leave must be called when it has been
// answered.
func (l lanes) enter(ctx context.Context, small bool) (leave func(), err error) {
	own := l.small
	if !small {
		own = nil
	}
	select {
	case own <- struct{}{}:
		return func() { <-own }, nil
	default:
	}
	select {
	case own <- struct{}{}:
		return func() { <-own }, nil
	case l.shared <- struct{}{}:
		return func() { <-l.shared }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
