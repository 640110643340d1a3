package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/internal/queue"
)

type slotKey struct{}

// admission is a queue and what its requests are called in errors.
type admission struct {
	queue     *queue.Queue
	one, many string // "query", "queries"
	slots     string // the flag that sets the number of slots
}

// queryAdmission is that of queries.
func (a *API) queryAdmission() admission {
	return admission{a.o.Queue, "query", "queries", "--query.max-concurrency"}
}

// listAdmission is that of requests for labels, series and metadata.
func (a *API) listAdmission() admission {
	return admission{a.o.ListQueue, "request for a list", "requests for lists", "--query.max-lists"}
}

// admitted has h answer when there is a slot for the request's query, which is to be
// given back by evaluationEnded. The time in the queue counts toward the
// query's timeout. The request's form, if it has one, must have been read, so that whoever
// sends one slowly holds no slot. fail answers requests that get none.
func (a *API) admitted(h http.Handler, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return a.admittedTo(a.queryAdmission(), h, fail)
}

// admittedTo is like admitted, of any kind of requests.
func (a *API) admittedTo(q admission, h http.Handler, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), a.timeout(r))
		defer cancel()
		slot, err := q.queue.Enter(ctx, a.client(r))
		if err != nil {
			w.Header().Set("Retry-After", retryAfter(err))
			fail(w, r, q.refusal(err))
			return
		}
		defer slot.Leave()
		h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, slotKey{}, slot)))
	})
}

// evaluationEnded gives the slot of a request back.
func evaluationEnded(ctx context.Context) {
	slot, _ := ctx.Value(slotKey{}).(*queue.Slot)
	slot.Leave()
}

// timeout is how long a request's query may take, the queue included. A form that was not
// read has no timeout.
func (a *API) timeout(r *http.Request) time.Duration {
	if d, err := parseDuration(r.Form.Get("timeout")); err == nil && d > 0 {
		return min(d, a.o.Timeout)
	}
	return a.o.Timeout
}

// client names who asks, among whom the queue is fair.
func (a *API) client(r *http.Request) string {
	if a.o.TenantHeader != "" {
		if tenant := r.Header.Get(a.o.TenantHeader); tenant != "" {
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

// retryAfter is the value of the header Retry-After for a request that got no slot.
func retryAfter(err error) string {
	var r *queue.Rejected
	if errors.As(err, &r) {
		return strconv.Itoa(int(r.RetryAfter() / time.Second))
	}
	return "1"
}

// respondNotAdmitted answers in Prometheus's form.
func (a *API) respondNotAdmitted(w http.ResponseWriter, r *http.Request, err error) {
	httputil.SetCORS(w, a.o.CORSOrigin, r)
	code, typ := classify(err)
	respondError(w, code, typ, err.Error())
}
