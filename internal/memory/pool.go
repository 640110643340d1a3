// Package memory divides the memory of the process among what it does.
//
// A Pool knows the limit of the process, how much each part takes at present, and how
// much may be taken before the garbage collector has too little room to work in. Work
// that depends on what is asked for takes leases: fetching, evaluating, answering. What a
// limit of its own bounds, such as a cache, and what is free only once the collector has
// found that out, is counted and never refused.
//
// A lease that does not fit has the collector look for garbage, has caches give way
// (Pool.OnShortage), and waits briefly for others to give memory back. Then it fails: with a
// *TooLargeError if it could never fit, else with a *BusyError. Nobody waits long, since who
// waits holds memory, too.
//
// Start with Pool.Lease and Lease.Grow. A nil Pool has no limit and counts nothing.
package memory

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Part is what memory is taken for.
type Part string

// The parts of a process that take memory as requests ask for it.
const (
	Fetched    Part = "fetched"    // encoded chunks and their tables, cached or not
	Evaluation Part = "evaluation" // what queries hold until their answers are written
	Answers    Part = "answers"    // encoded answers that wait to be written
	Requests   Part = "requests"   // bodies of requests
)

var parts = []Part{Fetched, Evaluation, Answers, Requests}

// headroom is the share of the limit that leases leave: for garbage, fragments of pages,
// stacks, and what nobody counts.
const headroom = 5 // a fifth

// Small leases may take of the headroom, so that large queries that share all the memory do
// not have small ones wait or fail.
const (
	reserve    = 16      // their share of the limit, a sixteenth
	smallLease = 1 << 20 // bytes of a lease that is small, at most
)

// Options configure a Pool.
type Options struct {
	// Limit is the memory of the process in bytes. Required.
	Limit int64
	// Wait is how long a lease waits for memory. Default a second.
	Wait time.Duration
}

// Pool is the memory of the process. It is safe for concurrent use.
type Pool struct {
	limit, most atomic.Int64
	wait        time.Duration
	used        atomic.Int64 // of leases and of what is counted
	of          map[Part]*atomic.Int64
	refused     map[Part]*atomic.Int64
	waiting     atomic.Int64
	wanted      atomic.Int64 // bytes that those who wait want, which are counted as taken
	uses        atomic.Int64 // leases that were made, and given back

	others atomic.Int64 // what is watched, as of looked
	looked atomic.Int64 // ns since the epoch

	mu      sync.Mutex
	watched map[int]watched
	next    int           // the key of what is watched next
	freed   chan struct{} // closed and replaced when memory is given back while somebody waits
	cleaned time.Time     // when the collector was last made to look for garbage

	shortage shortage
}

// watched is memory that somebody else counts.
type watched struct {
	name  string
	bytes func() int64
}

// New returns a pool.
func New(o Options) *Pool {
	if o.Wait == 0 {
		o.Wait = time.Second
	}
	p := &Pool{
		wait: o.Wait,
		of:   map[Part]*atomic.Int64{}, refused: map[Part]*atomic.Int64{},
		watched: map[int]watched{}, freed: make(chan struct{}),
	}
	p.SetLimit(o.Limit)
	for _, part := range parts {
		p.of[part], p.refused[part] = new(atomic.Int64), new(atomic.Int64)
	}
	return p
}

// Limit is the memory of the process in bytes; 0 is no limit.
func (p *Pool) Limit() int64 {
	if p == nil {
		return 0
	}
	return p.limit.Load()
}

// SetLimit changes the memory of the process, in bytes. What is taken stays taken.
func (p *Pool) SetLimit(limit int64) {
	p.limit.Store(limit)
	p.most.Store(limit - limit/headroom)
}

// Watch adds what bytes returns to what is taken. It is called now and then, from any
// goroutine, and must not wait. unwatch ends that.
func (p *Pool) Watch(name string, bytes func() int64) (unwatch func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.next
	p.next++
	p.watched[key] = watched{name, bytes}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watched, key)
	}
}

// lookEvery is for how long a sum of what is watched is good enough.
const lookEvery = 20 * time.Millisecond

// look is the sum of what is watched, in bytes.
func (p *Pool) look() int64 {
	now := time.Now().UnixNano()
	was := p.looked.Load()
	if now-was < int64(lookEvery) || !p.looked.CompareAndSwap(was, now) {
		return p.others.Load()
	}
	var n int64
	p.mu.Lock()
	for _, w := range p.watched {
		n += w.bytes()
	}
	p.mu.Unlock()
	p.others.Store(n)
	return n
}

// Count counts n bytes, or less if n is negative, that are taken whatever the limit says.
func (p *Pool) Count(part Part, n int64) {
	if p == nil || n == 0 {
		return
	}
	p.of[part].Add(n)
	p.used.Add(n)
	if n < 0 && p.waiting.Load() > 0 {
		p.wake()
	}
}

// Used is the memory in bytes that is taken at present, by leases and otherwise.
func (p *Pool) Used() int64 {
	if p == nil {
		return 0
	}
	return p.used.Load() + p.look()
}

// Parts is the memory in bytes that is taken at present, by what it is taken for.
func (p *Pool) Parts() map[string]int64 {
	all := map[string]int64{}
	if p == nil {
		return all
	}
	for part, n := range p.of {
		all[string(part)] = n.Load()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.watched {
		all[w.name] += w.bytes()
	}
	return all
}

// Uses is how many leases were ever made and given back: the same twice if nobody asked for
// anything meanwhile, and nothing ended that somebody had asked for.
func (p *Pool) Uses() int64 {
	if p == nil {
		return 0
	}
	return p.uses.Load()
}

// Refused is how often a lease was refused, by what it was for.
func (p *Pool) Refused() map[string]int64 {
	all := map[string]int64{}
	if p != nil {
		for part, n := range p.refused {
			all[string(part)] = n.Load()
		}
	}
	return all
}

// take takes n bytes for part. It waits for them as long as the pool's wait and ctx allow,
// but for small leases, which have a reserve.
func (p *Pool) take(ctx context.Context, part Part, n int64, small bool) error {
	p.Count(part, n)
	over := p.over()
	if over <= 0 || small && over-p.wanted.Load() <= p.Limit()/reserve {
		return nil
	}
	p.wanted.Add(n)
	defer p.wanted.Add(-n)
	if p.waitFor(ctx) {
		return nil
	}
	p.Count(part, -n)
	p.refused[part].Add(1)
	if err := ctx.Err(); err != nil {
		return err
	}
	return &BusyError{Limit: p.Limit()}
}

// Room waits until what is taken fits, as take does, for memory that is counted and not
// leased: it is asked again and again while that grows.
func (p *Pool) Room(ctx context.Context, part Part) error {
	if p == nil {
		return nil
	}
	return p.take(ctx, part, 0, false)
}

// over is by how many bytes more is taken than there is.
func (p *Pool) over() int64 { return p.Used() - p.most.Load() }

// waitFor waits until what is taken fits, and reports whether it does. What waits has
// been counted already, so that of two that do not fit together the second waits. It waits
// longer than the pool's wait only for caches that are giving way.
func (p *Pool) waitFor(ctx context.Context) bool {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	began := time.Now()
	timeout := time.NewTimer(p.wait)
	defer timeout.Stop()
	for {
		freed := p.signal()
		p.clean()
		if p.over() <= 0 {
			return true
		}
		if done := p.reclaim(began); done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				return false
			}
			if p.over() <= 0 {
				return true
			}
		}
		select {
		case <-freed:
		case <-time.After(p.wait / 8): // what is watched gives no sign
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// signal returns a channel that is closed when memory is given back.
func (p *Pool) signal() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed
}

// wake has those who wait look again.
func (p *Pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.freed)
	p.freed = make(chan struct{})
}

// cleanEvery is the least time between two collections that are asked for, since each
// costs a good part of all cores.
const cleanEvery = 250 * time.Millisecond

// clean has the collector look for garbage, which gives back what is counted until then.
func (p *Pool) clean() {
	p.mu.Lock()
	due := time.Since(p.cleaned) >= cleanEvery
	if due {
		p.cleaned = time.Now()
	}
	p.mu.Unlock()
	if due {
		runtime.GC()
	}
}
