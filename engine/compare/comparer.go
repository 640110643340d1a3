// Package compare runs a part of all queries on Prometheus's engine as well, in the background, and
// says where the answers differ.
//
// An engine asks Comparer.Chosen for each of its queries. When a chosen query was answered and its
// client has all of the answer, the engine calls Comparer.Begin with what evaluates the query again,
// over the very samples that it read, and holds the answers against each other (Differ).
//
// Invariant: nobody waits for a comparison. At most so many run at once; what finds no room is
// skipped, and one that runs ends when its time is up, when requests need its memory, or when
// what it reads from is closed.
//
// Start reading at Comparer.Begin.
package compare

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/internal/rescue"
)

// Limits say which queries are compared, and what that may take.
type Limits struct {
	// Fraction is the part of all queries, 0 to 1, that is compared.
	Fraction float64
	// Concurrency is the most comparisons at once.
	Concurrency int
	// Timeout is the longest that one may take.
	Timeout time.Duration
}

// Comparer runs comparisons. A nil Comparer chooses no query. It is safe for concurrent use.
type Comparer struct {
	limits  atomic.Pointer[Limits]
	asked   atomic.Uint64 // queries that could be chosen
	busy    func() bool
	metrics *metrics
	log     reports

	mu      sync.Mutex
	running map[*Comparison]bool
	closed  bool
}

// Comparison is one that runs.
type Comparison struct {
	// Bytes is the memory in bytes that ending it gives back.
	Bytes  func() int64
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// Why a comparison is skipped, or given up. Each is a reason in the metrics.
var (
	ErrBusy    = errors.New("busy")    // requests have the cores
	ErrRunning = errors.New("running") // as many as may run do
	ErrMemory  = errors.New("memory")  // requests need the memory, or it takes more than a query may
	ErrSamples = errors.New("samples") // it takes more samples than a query may
	ErrTimeout = errors.New("timeout") // its time is up
	ErrClosed  = errors.New("closed")  // the server stops, or no longer reads from what the query read
	// ErrUnread is the reason where Prometheus's engine reads what the query did not, as info does.
	ErrUnread = errors.New("unread")
	// ErrFailed is the reason where the query did not end by itself: cancelled, late, or samples
	// that could not be fetched.
	ErrFailed = errors.New("failed")
)

// golden is 2^64 divided by the golden ratio. Its multiples are spread evenly whatever the
// period is in which queries come, as those of a dashboard do.
const golden = 0x9E3779B97F4A7C15

type neverKey struct{}

// Never returns a context whose queries are not compared, for those whose samples must not be read
// after the query was closed.
func Never(ctx context.Context) context.Context { return context.WithValue(ctx, neverKey{}, true) }

// Chosen reports whether the next query, which has ctx, is to be compared. Which is depends on how
// many were asked before, and on nothing else.
func (c *Comparer) Chosen(ctx context.Context) bool {
	if c == nil {
		return false
	}
	fraction := c.limits.Load().Fraction
	if fraction <= 0 || ctx.Value(neverKey{}) != nil {
		return false
	}
	at := c.asked.Add(1) * golden
	return fraction >= 1 || at < uint64(fraction*math.MaxUint64)
}

// Set changes the limits. What runs goes on.
func (c *Comparer) Set(l Limits) { c.limits.Store(&l) }

// Begin has compare run in a goroutine of its own and reports whether it does; otherwise why not
// is counted. When compare returns, its verdict is counted and logged; the error is why it has
// none, one of the above.
func (c *Comparer) Begin(bytes func() int64, compare func(context.Context) (*Report, error)) bool {
	limits := c.limits.Load()
	ctx, cancel := context.WithCancelCause(context.Background())
	this := &Comparison{Bytes: bytes, cancel: cancel, done: make(chan struct{})}
	if err := c.enter(this, limits.Concurrency); err != nil {
		cancel(err)
		c.Skip(err)
		return false
	}
	go func() {
		defer c.leave(this)
		defer cancel(nil)
		ctx, end := context.WithTimeoutCause(ctx, limits.Timeout, ErrTimeout)
		defer end()
		began := time.Now()
		var r *Report
		err := rescue.Do(func() (err error) { r, err = compare(ctx); return err })
		if why := context.Cause(ctx); err != nil && why != nil {
			err = why
		}
		c.metrics.seconds.Add(time.Since(began).Seconds())
		if err != nil {
			c.Skip(err)
			return
		}
		c.metrics.compared.WithLabelValues(string(r.Verdict)).Inc()
		c.log.add(r)
	}()
	return true
}

// enter counts a comparison as one that runs, or says why it must not.
func (c *Comparer) enter(this *Comparison, most int) error {
	if c.busy() {
		return ErrBusy
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case len(c.running) >= most:
		return ErrRunning
	}
	c.running[this] = true
	return nil
}

func (c *Comparer) leave(this *Comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, this)
	close(this.done)
}

// Skip counts a chosen query that is not compared.
func (c *Comparer) Skip(why error) {
	for _, known := range []error{ErrBusy, ErrRunning, ErrMemory, ErrSamples, ErrTimeout, ErrClosed, ErrUnread, ErrFailed} {
		if errors.Is(why, known) {
			c.metrics.skipped.WithLabelValues(known.Error()).Inc()
			return
		}
	}
	c.metrics.skipped.WithLabelValues("error").Inc()
	c.log.failed(why)
}

// Running is how many comparisons run at present.
func (c *Comparer) Running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running)
}

// end has all that run end for a reason, and returns them.
func (c *Comparer) end(why error) (ended []*Comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.running {
		r.cancel(why)
		ended = append(ended, r)
	}
	return ended
}

// Yield ends all that run, as requests need their memory, and returns about how many bytes will be
// free.
func (c *Comparer) Yield(int64) (bytes int64) {
	for _, r := range c.end(ErrMemory) {
		bytes += r.Bytes()
	}
	return bytes
}

// EndAll ends all that run and waits until they have ended, before what they read is closed.
func (c *Comparer) EndAll() {
	for _, r := range c.end(ErrClosed) {
		<-r.done
	}
}

// Close is EndAll, and has none begin any more.
func (c *Comparer) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.EndAll()
}
