// Package queue bounds how many do something at once, how many wait for their turn, and
// how long they wait.
//
// Whoever enters says which client it is of. A free slot goes to the client of those that wait that
// has fewest slots, in turn where several have as few, and within a client to whoever came first. So a client with
// hundreds waiting delays another's first one by one slot. A queue that is full takes
// someone of a client that has few waiting and sends away the newest of the client that
// has most.
//
// Some slots can be kept for other clients: no client gets them if it has all others
// already, so that one whose queries all take long delays another's by nothing.
//
// Invariant: nobody waits while a slot is free that its client may have. Start with
// Queue.Enter.
package queue

import (
	"container/list"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits bound a queue.
type Limits struct {
	// Slots is how many may be in at once; 0 sets no limit.
	Slots int
	// Spare is how many of Slots one client alone may not have.
	Spare int
	// MaxWaiting is how many may wait; 0 lets none wait.
	MaxWaiting int
	// MaxWait is how long one may wait; 0 sets no limit but that of its context.
	MaxWait time.Duration
}

// Queue hands out slots. A nil Queue has slots for all. It is safe for concurrent use.
type Queue struct {
	metrics *metrics

	mu      sync.Mutex
	limits  Limits
	running int
	holds   map[string]int // slots, by client
	waiting int
	lines   map[string]*line // by client, those that have someone waiting
	turns   *list.List       // of *line, the next to get a slot in front
}

// line is who waits of one client.
type line struct {
	client  string
	waiters *list.List    // of *waiter, the one that came first in front
	turn    *list.Element // in Queue.turns
}

// waiter is one that waits.
type waiter struct {
	line  *line
	at    *list.Element // in line.waiters
	ended chan error    // gets nil with a slot, or why there is none
}

// New returns a queue whose metrics are registered with reg, which may be nil.
func New(l Limits, reg prometheus.Registerer) *Queue {
	return &Queue{limits: l, metrics: newMetrics(reg), holds: map[string]int{}, lines: map[string]*line{}, turns: list.New()}
}

// Set changes the limits. Nobody who is in or waits is sent away.
func (q *Queue) Set(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.handOut()
}

// Limits are those that hold at present; those of a nil Queue are 0.
func (q *Queue) Limits() Limits {
	if q == nil {
		return Limits{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limits
}

// Running is how many are in; 0 of a nil Queue.
func (q *Queue) Running() int {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

// Waiting is how many wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Holds is how many slots each client has that has any.
func (q *Queue) Holds() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.holds)
}

// Enter waits for a slot, which must be left. The error is a *Rejected, or what ended ctx.
// A free slot is taken without a look at ctx.
func (q *Queue) Enter(ctx context.Context, client string) (*Slot, error) {
	if q == nil {
		return &Slot{}, nil
	}
	w, limits, err := q.join(client)
	switch {
	case err != nil:
		q.metrics.reject(err)
		return nil, err
	case w == nil:
		q.metrics.wait.Observe(0)
		return &Slot{queue: q, client: client}, nil
	}
	start := time.Now()
	err = q.await(ctx, w, limits)
	waited := time.Since(start)
	q.metrics.wait.Observe(waited.Seconds())
	if err != nil {
		q.metrics.reject(err)
		return nil, err
	}
	return &Slot{queue: q, client: client}, nil
}

// join takes a free slot, in which case the waiter is nil, or lines up.
func (q *Queue) join(client string) (*waiter, Limits, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free(client) {
		q.enter(client)
		return nil, q.limits, nil
	}
	l := q.lines[client]
	if q.waiting >= q.limits.MaxWaiting && !q.makeRoom(l) {
		return nil, q.limits, &Rejected{Reason: Full, Limits: q.limits}
	}
	if l = q.lines[client]; l == nil {
		l = &line{client: client, waiters: list.New()}
		l.turn = q.turns.PushBack(l)
		q.lines[client] = l
	}
	w := &waiter{line: l, ended: make(chan error, 1)}
	w.at = l.waiters.PushBack(w)
	q.waiting++
	q.metrics.waiting.Inc()
	return w, q.limits, nil
}

// free reports whether there is a slot for client.
func (q *Queue) free(client string) bool {
	l := q.limits
	return l.Slots <= 0 || q.running < l.Slots && q.holds[client] < l.Slots-l.Spare
}

// enter gives client a slot.
func (q *Queue) enter(client string) {
	q.running++
	q.holds[client]++
	q.metrics.running.Inc()
}

// makeRoom sends away the newest of the longest line, if that stays no shorter than l,
// which may be nil, becomes by one more.
func (q *Queue) makeRoom(l *line) bool {
	joined := 1
	if l != nil {
		joined += l.waiters.Len()
	}
	var longest *line
	for _, o := range q.lines {
		if longest == nil || o.waiters.Len() > longest.waiters.Len() {
			longest = o
		}
	}
	if longest == nil || longest.waiters.Len() <= joined {
		return false
	}
	w := longest.waiters.Back().Value.(*waiter)
	q.remove(w)
	w.ended <- &Rejected{Reason: Displaced, Limits: q.limits}
	return true
}

// await waits until w has a slot or will not get one.
func (q *Queue) await(ctx context.Context, w *waiter, l Limits) error {
	var late <-chan time.Time
	if l.MaxWait > 0 {
		t := time.NewTimer(l.MaxWait)
		defer t.Stop()
		late = t.C
	}
	var why error
	select {
	case err := <-w.ended:
		return err
	case <-late:
		why = &Rejected{Reason: Late, Limits: l}
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-w.ended: // just before
		if err == nil {
			q.leave(w.line.client)
		}
	default:
		q.remove(w)
	}
	return why
}

// remove takes w out of its line.
func (q *Queue) remove(w *waiter) {
	l := w.line
	l.waiters.Remove(w.at)
	if l.waiters.Len() == 0 {
		q.turns.Remove(l.turn)
		delete(q.lines, l.client)
	}
	q.waiting--
	q.metrics.waiting.Dec()
}

// handOut gives the free slots to those whose turn it is.
func (q *Queue) handOut() {
	for {
		l := q.next()
		if l == nil {
			return
		}
		q.turns.MoveToBack(l.turn)
		w := l.waiters.Front().Value.(*waiter)
		q.remove(w)
		q.enter(l.client)
		w.ended <- nil
	}
}

// next is the line whose turn it is, of a client that may have a slot, or nil.
func (q *Queue) next() (next *line) {
	for at := q.turns.Front(); at != nil; at = at.Next() {
		l := at.Value.(*line)
		if q.free(l.client) && (next == nil || q.holds[l.client] < q.holds[next.client]) {
			next = l
		}
	}
	return next
}

// leave gives a slot of client back.
func (q *Queue) leave(client string) {
	q.running--
	if q.holds[client]--; q.holds[client] == 0 {
		delete(q.holds, client)
	}
	q.metrics.running.Dec()
	q.handOut()
}

// Slot is the right to be in.
type Slot struct {
	queue  *Queue
	client string
	once   sync.Once
}

// Leave gives the slot to the next. It may be called more than once, and on nil.
func (s *Slot) Leave() {
	if s == nil || s.queue == nil {
		return
	}
	s.once.Do(func() {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		s.queue.leave(s.client)
	})
}
