// Package queue bounds how many do something at once, how many wait for their turn, and
// how long they wait.
//
// A request that enters says which client it is of. A free slot goes to the waiting client that
// has fewest slots, of several with as few to the one whose last turn is longest ago, and within a
// client to the request that came first. So a client with
// hundreds waiting delays another's first one by one slot. A queue that is full takes
// someone of a client that has few waiting and sends away the newest of the client that
// has most.
//
// Some slots can be kept for other clients: no client gets them if it has all others
// already, so that one whose queries all take long delays another's by nothing.
//
// Invariant: no request waits while a slot is free that its client may have. Start with
// Queue.Enter.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/instrument"
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
	waiting int
	turns   int64              // that there were
	clients map[string]*client // by name, clients with a slot or a waiting request
}

// client is who has slots, or waits for some.
type client struct {
	name    string
	holds   int          // slots
	waiting []chan error // each gets nil with a slot, or why there is none; in the order in which they came
	turn    int64        // when it began to wait or got a slot, by Queue.turns
}

// New returns a queue whose metrics are registered with reg, which may be nil.
func New(l Limits, reg prometheus.Registerer) *Queue {
	return &Queue{limits: l, metrics: newMetrics(reg), clients: map[string]*client{}}
}

// Set changes the limits. No request that is in or waits is sent away.
func (q *Queue) Set(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.handOut()
}

// Limits are the limits in force; a nil Queue has 0.
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

// Holds is how many slots each client has that has any, or waits for one.
func (q *Queue) Holds() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	holds := map[string]int{}
	for name, c := range q.clients {
		holds[name] = c.holds
	}
	return holds
}

// Enter waits for a slot, which must be left. The error is a *Rejected, or what ended ctx.
// A free slot is taken without a look at ctx.
func (q *Queue) Enter(ctx context.Context, name string) (*Slot, error) {
	if q == nil {
		return nil, nil
	}
	start := time.Now()
	c, mine, limits, err := q.join(name)
	if mine != nil {
		err = q.await(ctx, c, mine, limits)
	}
	if err == nil || mine != nil {
		q.metrics.wait.Observe(time.Since(start).Seconds())
	}
	if err != nil {
		q.metrics.reject(err)
		return nil, err
	}
	return &Slot{queue: q, client: c}, nil
}

// join takes a free slot, in which case there is nothing to wait for, or lines up.
func (q *Queue) join(name string) (c *client, mine chan error, limits Limits, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c = q.clients[name]; c == nil {
		c = &client{name: name}
	}
	switch {
	case q.free(c):
		q.enter(c)
	case q.waiting >= q.limits.MaxWaiting && !q.makeRoom(len(c.waiting)+1):
		return nil, nil, q.limits, &Rejected{Reason: Full, Limits: q.limits}
	default:
		if len(c.waiting) == 0 {
			q.turns++
			c.turn = q.turns
		}
		mine = make(chan error, 1)
		c.waiting = append(c.waiting, mine)
		q.waiting++
		q.metrics.waiting.Inc()
	}
	q.clients[name] = c
	return c, mine, q.limits, nil
}

// free reports whether there is a slot for a client.
func (q *Queue) free(c *client) bool {
	l := q.limits
	return l.Slots <= 0 || q.running < l.Slots && c.holds < l.Slots-l.Spare
}

// enter gives a client a slot.
func (q *Queue) enter(c *client) {
	q.running++
	q.turns++
	c.holds++
	c.turn = q.turns
	q.metrics.running.Inc()
}

// makeRoom sends away the newest of the client with most waiting, if these are more than joined.
func (q *Queue) makeRoom(joined int) bool {
	var longest *client
	for _, c := range q.clients {
		if len(c.waiting) > joined {
			longest, joined = c, len(c.waiting)
		}
	}
	if longest == nil {
		return false
	}
	mine := longest.waiting[joined-1]
	q.remove(longest, mine)
	mine <- &Rejected{Reason: Displaced, Limits: q.limits}
	return true
}

// await waits until mine has a slot or will not get one.
func (q *Queue) await(ctx context.Context, c *client, mine chan error, l Limits) error {
	var late <-chan time.Time
	if l.MaxWait > 0 {
		late = time.After(l.MaxWait)
	}
	var why error
	select {
	case err := <-mine:
		return err
	case <-late:
		why = &Rejected{Reason: Late, Limits: l}
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-mine: // just before
		if err == nil {
			q.leave(c)
		}
	default:
		q.remove(c, mine)
	}
	return why
}

// remove has a client no longer wait with mine.
func (q *Queue) remove(c *client, mine chan error) {
	i := slices.Index(c.waiting, mine)
	c.waiting = slices.Delete(c.waiting, i, i+1)
	q.waiting--
	q.metrics.waiting.Dec()
	q.forget(c)
}

// forget forgets a client that has nothing and waits for nothing.
func (q *Queue) forget(c *client) {
	if c.holds == 0 && len(c.waiting) == 0 {
		delete(q.clients, c.name)
	}
}

// handOut gives the free slots to those whose turn it is.
func (q *Queue) handOut() {
	for q.waiting > 0 {
		var next *client
		for _, c := range q.clients {
			if len(c.waiting) > 0 && q.free(c) &&
				(next == nil || cmp.Or(cmp.Compare(c.holds, next.holds), cmp.Compare(c.turn, next.turn)) < 0) {
				next = c
			}
		}
		if next == nil {
			return
		}
		mine := next.waiting[0]
		q.enter(next)
		q.remove(next, mine)
		mine <- nil
	}
}

// leave gives a slot of a client back.
func (q *Queue) leave(c *client) {
	q.running--
	c.holds--
	q.metrics.running.Dec()
	q.forget(c)
	q.handOut()
}

// Slot is the right to be in.
type Slot struct {
	queue  *Queue
	client *client
	once   sync.Once
}

// Leave gives the slot to the next. It may be called more than once, and on nil.
func (s *Slot) Leave() {
	if s == nil {
		return
	}
	s.once.Do(func() {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		s.queue.leave(s.client)
	})
}

// Reason is why someone was sent away.
type Reason string

// The reasons.
const (
	// Full is that as many wait as may.
	Full Reason = "full"
	// Displaced is that another client with fewer waiting came when the queue was full.
	Displaced Reason = "displaced"
	// Late is that the wait took as long as it may.
	Late Reason = "late"
	// gone is that the context ended, which is no *Rejected.
	gone Reason = "gone"
)

// Rejected is the error of one that is sent away.
type Rejected struct {
	Reason Reason
	Limits Limits // the limits in force then
}

// Error implements error.
func (r *Rejected) Error() string {
	switch r.Reason {
	case Late:
		return fmt.Sprintf("none of %d slots became free within %s, which is the longest wait in the queue", r.Limits.Slots, r.Limits.MaxWait)
	case Displaced:
		return fmt.Sprintf("the queue is full with %d waiting, most of them from this client, and another client came", r.Limits.MaxWaiting)
	}
	return fmt.Sprintf("all %d slots are in use and the queue is full with %d waiting", r.Limits.Slots, r.Limits.MaxWaiting)
}

// RetryAfter is how long to wait before trying again, in whole seconds: as long as the
// queue's wait, after which all who wait now have their slot or have gone.
func (r *Rejected) RetryAfter() time.Duration {
	return max((r.Limits.MaxWait + time.Second - 1).Truncate(time.Second), time.Second)
}

// metrics tell how long a queue is.
type metrics struct {
	waiting  prometheus.Gauge
	running  prometheus.Gauge
	wait     prometheus.Histogram
	rejected *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := instrument.With(reg)
	m := &metrics{
		waiting: f.Gauge("promwarp_queue_waiting", "Requests that wait for a slot."),
		running: f.Gauge("promwarp_queue_running", "Slots in use."),
		wait: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "promwarp_queue_wait_seconds",
			Help:    "How long requests waited in the queue, those sent away included.",
			Buckets: []float64{.001, .01, .1, .3, 1, 3, 10, 30},
		}),
		rejected: f.Counters("promwarp_queue_rejected_total", "Requests that got no slot: the queue was full, others displaced them, they were late, or they had gone.", "reason"),
	}
	for _, r := range []Reason{Full, Displaced, Late, gone} {
		m.rejected.WithLabelValues(string(r))
	}
	return m
}

// reject counts a wait that ended with err.
func (m *metrics) reject(err error) {
	reason := gone
	if r, ok := errors.AsType[*Rejected](err); ok {
		reason = r.Reason
	}
	m.rejected.WithLabelValues(string(reason)).Inc()
}
