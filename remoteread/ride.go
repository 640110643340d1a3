package remoteread

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

// Questions that wait for a lane while many others do go in one request: a remote read carries many
// queries. Each request costs the store and promwarp more than the answer of a small one.

// ride is a question on its way in a request, its own or another one's.
type ride struct {
	ctx  context.Context // of who asks
	q    question
	turn chan turn     // made where it waits
	done chan struct{} // closed when the request has ended, if it goes with others

	sel *selection.Selection // what came; nil with an error
	err error

	mu   sync.Mutex // guards sh, which who asks has again once it has left
	sh   *share
	left bool
}

// errTogether is for a ride whose request failed for a reason that may be another ride's.
var errTogether = errors.New("the request is to be made again for each of its questions")

// attempt has a question answered, by a request of its own or one that it shares with others. Once
// it returns nothing goes on for the question.
func (c *Client) attempt(ctx context.Context, q question, sh *share) (*selection.Selection, error) {
	// What is large keeps a lane busy alone, and what is expected may be.
	q.alone = q.alone || len(selection.Expected(ctx).Series) > partSeries || q.length() > uint64(DefaultPiece.Milliseconds())
	r := &ride{ctx: ctx, q: q, sh: sh, done: make(chan struct{})}
	t, err := c.lanes.enter(ctx, r)
	switch {
	case err != nil:
		return nil, c.canceled(ctx)
	case t.place != passenger && len(t.mates) == 0:
		defer c.lanes.leave(t.place)
		if ctx.Err() != nil {
			return nil, c.canceled(ctx)
		}
		c.request(ctx, []*ride{r})
		return r.sel, r.err
	case t.place != passenger:
		go c.together(t.place, append(t.mates, r))
	}
	select {
	case <-r.done:
		return r.sel, r.err
	case <-ctx.Done():
		r.mu.Lock() // what is being counted for it ends first
		defer r.mu.Unlock()
		r.left = true
		return nil, c.canceled(ctx)
	}
}

// together makes one request for several rides. It goes on as long as any of them waits.
func (c *Client) together(p place, rides []*ride) {
	defer c.lanes.leave(p)
	ctx, cancel := context.WithCancel(context.WithoutCancel(rides[0].ctx))
	defer cancel()
	var waiting atomic.Int64
	waiting.Store(int64(len(rides)))
	for _, r := range rides {
		defer context.AfterFunc(r.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	err := rescue.Do(func() error { c.request(ctx, rides); return nil })
	for _, r := range rides {
		if err != nil {
			r.sel, r.err = nil, err
		}
		close(r.done)
	}
}

// request makes one request and tells each ride what came of it.
func (c *Client) request(ctx context.Context, rides []*ride) {
	c.metrics.inFlight.Inc()
	start := time.Now()
	err := c.send(ctx, rides)
	c.metrics.inFlight.Dec()
	c.metrics.seconds.Observe(time.Since(start).Seconds())
	c.metrics.requests.WithLabelValues(string(outcomeOf(err))).Inc()
	for _, r := range rides {
		switch {
		case r.sel != nil:
		case err == nil:
			r.err = c.canceled(r.ctx) // the others went on without it
		default:
			r.err = own(err, len(rides))
		}
		if series := r.ended(start); r.err == nil {
			c.metrics.series.Add(float64(series))
		}
	}
}

// own is the error of a request as that of one of its rides.
func own(err error, rides int) error {
	var e *Error
	if rides == 1 || err == nil || !errors.As(err, &e) {
		return err
	}
	switch e.outcome {
	case outcomeCanceled, outcomeTimeout, outcomeConnection, outcomeStatus5xx, outcomeRateLimited, outcomeRelabelled:
		one := *e // each counts its attempts
		return &one
	}
	return errTogether
}

// part is the ride as one who reads the answer sees it.
func (r *ride) part() *answer.Part {
	return &answer.Part{
		Ctx: r.ctx, Asked: r.q.matchers, View: r.q.view, Number: r.q.part, Exact: r.q.samples,
		Count: func(bytes, series int64) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.left {
				return r.ctx.Err()
			}
			return r.sh.set(bytes, series)
		},
	}
}

// came notes how many bytes the answer had, and when the first came.
func (r *ride) came(bytes int64, first time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left {
		r.sh.wire, r.sh.firstByte = bytes, first
	}
}

// ended tells who asks of the request that was sent at start, and returns how many series came.
func (r *ride) ended(start time.Time) (series int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left {
		series = r.sh.series
		selection.RequestEnded(r.ctx, r.sh.request(r.q, start, r.sel, r.err))
	}
	return series
}
