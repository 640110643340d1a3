package remoteread

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/promwarp/promwarp/selection"
)

const (
	// corruptRetries is how often a piece is fetched again because its bytes
	// were damaged. TCP's checksum lets one in a great many errors pass; twice
	// in a row means something damages them every time.
	corruptRetries = 1
	// maxRetryAfter is the longest wait asked for by a store that is granted.
	// Someone waits for the answer, and had better hear that it will be long.
	maxRetryAfter = 30 * time.Second
)

// fetchPiece fetches one piece, again from its start where that may help: when
// there was no answer, a status of 5xx or 429, or an answer cut off or damaged.
// A store that made no progress within the timeout is not asked again, as that
// would double the work of one that is overloaded.
func (c *Client) fetchPiece(ctx context.Context, q question, all *tally) (*selection.Selection, error) {
	corrupt := 0
	for n := 1; ; n++ {
		sh := &share{of: all}
		sel, err := c.attempt(ctx, q, sh)
		if err == nil {
			return sel, nil
		}
		sh.takeBack()
		var e *Error
		if !errors.As(err, &e) {
			return nil, err
		}
		e.attempts = n
		if e.outcome == outcomeCorrupt {
			corrupt++
		}
		if !e.Retryable || n > c.retries || corrupt > corruptRetries {
			return nil, e
		}
		wait := max(c.backoff(n), e.retryAfter)
		if e.retryAfter > maxRetryAfter {
			e.advice = "the store asks to wait " + e.retryAfter.Round(time.Second).String() + "; " + e.advice
			return nil, e
		}
		// What happened says more than that the time was up while waiting.
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return nil, e
		}
		c.log.Warn("Remote read failed and is tried again", "upstream", c.name, "attempt", n, "wait", wait, "err", e.Err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, c.canceled(ctx)
		}
		c.metrics.retries.Inc()
	}
}

// backoff is the wait after n failed attempts: twice as long each time, half
// of it random so that pieces that failed together do not come back together.
func (c *Client) backoff(n int) time.Duration {
	d := c.minBackoff
	for i := 1; i < n && d < c.maxBackoff; i++ {
		d *= 2
	}
	d = min(d, c.maxBackoff)
	return d/2 + rand.N(d/2+1)
}
