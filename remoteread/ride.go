package remoteread

import (
	"context"
	"time"

	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

// ride is a question on its way in a request.
type ride struct {
	ctx context.Context // of who asks
	q   question
	sh  *share

	sel *selection.Selection // what came; nil with an error
	err error
}

// attempt has a question answered by a request of its own.
func (c *Client) attempt(ctx context.Context, q question, sh *share) (*selection.Selection, error) {
	r := &ride{ctx: ctx, q: q, sh: sh}
	if !c.inTurn(ctx, []*ride{r}) {
		return nil, c.canceled(ctx)
	}
	return r.sel, r.err
}

// inTurn makes one request for rides when there is a place for it, unless ctx ends before.
func (c *Client) inTurn(ctx context.Context, rides []*ride) bool {
	series := 0
	for _, r := range rides {
		series += len(selection.Expected(r.ctx).Series)
	}
	small := rides[0].q.length() < uint64(smallSpan.Milliseconds()) && series <= smallSeries
	leave, err := c.lanes.enter(ctx, small)
	if err != nil {
		return false
	}
	defer leave()
	if ctx.Err() != nil {
		return false
	}
	c.request(ctx, rides)
	return true
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
			r.err = err
		}
		if series := r.ended(start); r.err == nil {
			c.metrics.series.Add(float64(series))
		}
	}
}

// part is the ride as one who reads the answer sees it.
func (r *ride) part() *answer.Part {
	return &answer.Part{
		Ctx: r.ctx, Asked: r.q.matchers, View: r.q.view, Exact: r.q.samples,
		Count: r.sh.set,
	}
}

// ended tells who asks of the request that was sent at start, and returns how many series came.
func (r *ride) ended(start time.Time) (series int64) {
	selection.RequestEnded(r.ctx, r.sh.request(r.q, start, r.sel, r.err))
	return r.sh.series
}
