// Package admit has requests wait for their turn, so that no more are evaluated at once than
// the machine is good for, and refuses requests that would wait too long. A Gate has a queue of
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

// Query waits for a slot for the request's query, which Turn.Evaluated gives back, and lists it as one
// of a door's until Turn.End, which is to be called; one of no door is not listed.
// The time in the queue counts toward the query's timeout, which ends the context of the request that
// it returns. The request's form, if it has one, must have been read, so that a client that sends one
// slowly holds no slot. An error says why there is no slot; the header says when to come again.
func (g *Gate) Query(w http.ResponseWriter, r *http.Request, door string) (*Turn, *http.Request, error) {
	return g.enter(admission{g.Queries, "query", "queries", "--query.max-concurrency", g.TooLarge}, w, r, door)
}

// List has answer answer requests for labels, series and metadata when it is their turn, which ends as
// the answer begins, and refuse a request that got none.
func (g *Gate) List(answer http.HandlerFunc, refuse func(w http.ResponseWriter, err error)) http.HandlerFunc {
	q := admission{g.Lists, "request for a list", "requests for lists", "--query.max-lists", nil}
	return func(w http.ResponseWriter, r *http.Request) {
		t, r, err := g.enter(q, w, r, "")
		if err != nil {
			refuse(w, err)
			return
		}
		defer t.End()
		answer(&listed{w, t}, r)
	}
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

// enter waits for a slot.
func (g *Gate) enter(q admission, w http.ResponseWriter, r *http.Request, door string) (*Turn, *http.Request, error) {
	timeout := g.Timeout // of a form that was not read
	if d, err := promapi.Duration(r.Form.Get("timeout")); err == nil && d > 0 {
		timeout = min(d, timeout)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	t := &Turn{Door: door, gate: g, cancel: cancel, request: r, large: q.large}
	if door != "" {
		t.list(r.Form)
	}
	if err := t.large.Refuses(t.identify, g.Memory); err != nil {
		t.End()
		return nil, nil, err
	}
	began := time.Now()
	_, span := tracing.Start(ctx, "admission")
	var err error
	t.slot, err = q.queue.Enter(ctx, g.Client(r))
	tracing.End(span, err)
	if err != nil {
		t.End()
		w.Header().Set("Retry-After", promapi.RetryAfter(err))
		return nil, nil, q.refusal(err)
	}
	t.Waited = time.Since(began)
	t.admitted.Store(true)
	return t, r.WithContext(ctx), nil
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
