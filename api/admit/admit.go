// Package admit has requests wait for their turn, so that no more are evaluated at once than
// the machine is good for, and refuses those that would wait too long. A Gate has a queue of
// queries and one of lists, both fair between clients.
//
// A Turn is a request under way, from when its form was read until it is answered. The gate lists
// turns, with what is fetched for each, and cancels a turn by its number.
//
// Start with Gate.Query.
package admit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/internal/tracing"
)

// Gate is where requests wait for their turn.
type Gate struct {
	// Queries and Lists are where queries wait, and requests for labels, series and metadata;
	// nil bounds nothing.
	Queries, Lists *queue.Queue
	// Timeout bounds a request with its time in the queue.
	Timeout time.Duration
	// TenantHeader is the header that says whose a request is; requests without it, and all if
	// it is empty, are the remote address's.
	TenantHeader string
	// TooLarge are queries that needed more memory than there is, and are refused for a while; nil
	// are none. Memory is that of the process; nil has no limit.
	TooLarge *memory.TooLarge
	Memory   *memory.Pool

	mu    sync.Mutex
	last  uint64
	turns map[uint64]*Turn // that are listed, by their numbers
}

// admission is a queue and what its requests are called in errors.
type admission struct {
	queue     *queue.Queue
	one, many string // "query", "queries"
	slots     string // the flag that sets the number of slots
	large     *memory.TooLarge
}

// Query calls answer when there is a slot for the request's query, which Turn.Evaluated gives back, and
// lists it as one of a door's until it is answered; one of no door is not listed.
// The time in the queue counts toward the query's timeout, which ends the context that answer gets.
// The request's form, if it has one, must have been read, so that whoever sends one slowly holds no
// slot. An error says why there is no slot; the header says when to come again.
func (g *Gate) Query(w http.ResponseWriter, r *http.Request, door string, answer func(*http.Request, *Turn)) error {
	return g.admit(admission{g.Queries, "query", "queries", "--query.max-concurrency", g.TooLarge}, w, r, door, answer)
}

// List has h answer requests for labels, series and metadata when it is their turn, which ends as the
// answer begins, and refuse those that got none.
func (g *Gate) List(h http.Handler, refuse func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	q := admission{g.Lists, "request for a list", "requests for lists", "--query.max-lists", nil}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.admit(q, w, r, "", func(r *http.Request, t *Turn) { h.ServeHTTP(&listed{w, t}, r) }); err != nil {
			refuse(w, r, err)
		}
	})
}

// listed is the http.ResponseWriter of a list, whose turn ends when that is written.
type listed struct {
	http.ResponseWriter
	turn *Turn
}

// Unwrap is for http.ResponseController.
func (l *listed) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (l *listed) WriteHeader(code int) {
	l.turn.slot.Leave()
	l.ResponseWriter.WriteHeader(code)
}

// Leave ends the turn of the list that w is for before it is written.
func Leave(w http.ResponseWriter) {
	if l, ok := w.(*listed); ok {
		l.turn.slot.Leave()
	}
}

func (g *Gate) admit(q admission, w http.ResponseWriter, r *http.Request, door string, answer func(*http.Request, *Turn)) error {
	ctx, cancel := context.WithTimeout(r.Context(), g.timeout(r))
	defer cancel()
	t := &Turn{Door: door, gate: g, cancel: cancel}
	if door != "" {
		defer t.list(r.Form)()
	}
	t.identify(q.large, r)
	if err := t.large.Refuses(t.key, t.start, g.Memory.Limit()); err != nil {
		return err
	}
	_, span := tracing.Start(ctx, "admission")
	var err error
	t.slot, err = q.queue.Enter(ctx, g.Client(r))
	tracing.End(span, err)
	if err != nil {
		w.Header().Set("Retry-After", promapi.RetryAfter(err))
		return q.refusal(err)
	}
	defer t.slot.Leave()
	t.admitted.Store(true)
	answer(r.WithContext(ctx), t)
	return nil
}

// timeout is how long a request's query may take, the queue included. A form that was not
// read has no timeout.
func (g *Gate) timeout(r *http.Request) time.Duration {
	if d, err := promapi.Duration(r.Form.Get("timeout")); err == nil && d > 0 {
		return min(d, g.Timeout)
	}
	return g.Timeout
}

// Client names who asks, among whom the queue is fair.
func (g *Gate) Client(r *http.Request) string {
	if g.TenantHeader != "" {
		if tenant := r.Header.Get(g.TenantHeader); tenant != "" {
			return "tenant " + tenant
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// queueError is the error of a request that got no slot.
type queueError struct {
	text string
	err  error
}

func (e *queueError) Error() string { return e.text }
func (e *queueError) Unwrap() error { return e.err }

// refusal says why a request got no slot.
func (q admission) refusal(err error) error {
	text := fmt.Sprintf("the %s was cancelled while it waited in the queue", q.one)
	switch {
	case errors.As(err, new(*queue.Rejected)):
		text = fmt.Sprintf("too many %s at once: %v; %s, --query.max-queue and --query.max-queue-time set the limits", q.many, err, q.slots)
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("%s timed out in the queue: none of %d slots, which %s sets, became free within its timeout", q.one, q.queue.Limits().Slots, q.slots)
	}
	return &queueError{text, err}
}
