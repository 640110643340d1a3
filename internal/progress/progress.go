// Package progress counts what is done for a request while it is done, for those who look at it
// meanwhile.
//
// Whoever shows requests makes a Request. What fetches, evaluates and answers has it as an argument,
// nil where nobody looks, and tells it. Nothing depends on what it says.
package progress

import "sync/atomic"

// Stage is what a request is doing.
type Stage string

// The stages of a request that has its turn.
const (
	Fetching   Stage = "fetching" // it waits for samples
	Evaluating Stage = "evaluating"
	Writing    Stage = "writing" // its answer
)

// Request is how far a request has come. It is safe for concurrent use, and all methods that tell it
// something may be called on nil.
type Request struct {
	fetches   atomic.Int64 // that it waits for
	arrived   atomic.Int64
	most      atomic.Int64 // that arrived ever was
	evaluated atomic.Int64
	ended     atomic.Bool
}

// Fetch says that the request waits for a fetch, until done is called.
func (r *Request) Fetch() (done func()) {
	if r == nil {
		return func() {}
	}
	r.fetches.Add(1)
	return func() { r.fetches.Add(-1) }
}

// Arrive says that so many bytes have arrived; fewer than none take back what is thrown away.
func (r *Request) Arrive(bytes int64) {
	if r == nil {
		return
	}
	now := r.arrived.Add(bytes)
	for most := r.most.Load(); now > most && !r.most.CompareAndSwap(most, now); most = r.most.Load() {
	}
}

// Evaluate says that windows of so many samples of a series were evaluated.
func (r *Request) Evaluate(samples int) {
	if r != nil {
		r.evaluated.Add(int64(samples))
	}
}

// End says that all is evaluated.
func (r *Request) End() {
	if r != nil {
		r.ended.Store(true)
	}
}

// Stage is what the request is doing.
func (r *Request) Stage() Stage {
	switch {
	case r.ended.Load():
		return Writing
	case r.fetches.Load() > 0:
		return Fetching
	}
	return Evaluating
}

// Arrived is the number of bytes of chunks and labels that have arrived.
func (r *Request) Arrived() int64 { return r.arrived.Load() }

// MostArrived is the most that Arrived ever was: what a fetch brought that failed is among it.
func (r *Request) MostArrived() int64 { return r.most.Load() }

// Evaluated is the number of samples whose windows executors have evaluated on cores.
func (r *Request) Evaluated() int64 { return r.evaluated.Load() }
