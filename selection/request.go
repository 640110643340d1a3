package selection

import (
	"context"
	"sync"
	"time"
)

// Request is how one request of a fetch to its source went.
type Request struct {
	MinT, MaxT  int64 // what was asked for, in ms since the epoch, both included
	Sent, Ended time.Time
	FirstByte   time.Time // of the answer's body; zero if none came
	Bytes       int64     // of the answer's body, as it came
	Series      int       // of the answer; none if the request failed
	Samples     int64
	Outcome     string // ok, or how it failed
}

type requestKey struct{}

// OnRequest returns a context in which a fetch tells f of each of its requests that has ended. f is
// called by several goroutines at once.
func OnRequest(ctx context.Context, f func(Request)) context.Context {
	return context.WithValue(ctx, requestKey{}, f)
}

// RequestEnded tells who made ctx of a request.
func RequestEnded(ctx context.Context, r Request) {
	if f, ok := ctx.Value(requestKey{}).(func(Request)); ok {
		f(r)
	}
}

// mostRequests is how many requests Requests lists.
const mostRequests = 64

// Requests lists requests that have ended, in the order in which they did. It is safe for concurrent
// use.
type Requests struct {
	mu   sync.Mutex
	all  []Request
	more int // further ones
}

// Add adds one.
func (r *Requests) Add(one Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == mostRequests {
		r.more++
		return
	}
	r.all = append(r.all, one)
}

// List returns the first requests, and how many there were besides.
func (r *Requests) List() (all []Request, more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.more
}
