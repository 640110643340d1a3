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
// *TooLargeError if it could never fit, else with a *BusyError. A request does not
// wait long, since it holds memory, too.
//
// Start with Pool.Lease and Lease.Grow. A nil Pool has no limit and counts nothing.
package memory

import (
	"cmp"
	"slices"
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

// headroom is the share of the limit that leases leave: for garbage, fragments of pages,
// stacks, and what is not counted.
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
	parts       map[Part]*counts
	waiting     atomic.Int64
	wanted      atomic.Int64 // bytes that those who wait want, which are counted as taken
	uses        atomic.Int64 // leases that were made, and given back
	reclaimed   atomic.Int64 // bytes

	others atomic.Int64 // what is watched, as of looked
	looked atomic.Int64 // ns since the epoch

	mu         sync.Mutex
	watched    []*watched
	reclaimers []*reclaimer
	freed      chan struct{} // closed and replaced when memory is given back while somebody waits
	relieving  chan struct{} // closed when the search for memory under way has ended; nil without one
	barren     time.Time     // when one last did not find enough
}

// counts are those of a part, in bytes and in leases.
type counts struct{ used, refused atomic.Int64 }

// watched is memory that somebody else counts.
type watched struct {
	name  string
	bytes func() int64
}

// New returns a pool.
func New(o Options) *Pool {
	p := &Pool{wait: cmp.Or(o.Wait, time.Second), parts: map[Part]*counts{}, freed: make(chan struct{})}
	p.SetLimit(o.Limit)
	for _, part := range []Part{Fetched, Evaluation, Answers, Requests} {
		p.parts[part] = new(counts)
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
	w := &watched{name, bytes}
	p.watched = append(p.watched, w)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.watched = slices.DeleteFunc(p.watched, func(other *watched) bool { return other == w })
	}
}

// lookEvery is for how long a sum of what is watched is good enough.
const lookEvery = 20 * time.Millisecond

// Count counts n bytes, or less if n is negative, that are taken whatever the limit says.
func (p *Pool) Count(part Part, n int64) {
	if p == nil || n == 0 {
		return
	}
	p.parts[part].used.Add(n)
	p.used.Add(n)
	if n < 0 && p.waiting.Load() > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

// Used is the memory in bytes that is taken at present, by leases and otherwise.
func (p *Pool) Used() int64 {
	if p == nil {
		return 0
	}
	now := time.Now().UnixNano()
	if was := p.looked.Load(); now-was >= int64(lookEvery) && p.looked.CompareAndSwap(was, now) {
		var n int64
		p.mu.Lock()
		for _, w := range p.watched {
			n += w.bytes()
		}
		p.mu.Unlock()
		p.others.Store(n)
	}
	return p.used.Load() + p.others.Load()
}

// Parts is the memory in bytes that is taken at present, by what it is taken for.
func (p *Pool) Parts() map[string]int64 {
	all := map[string]int64{}
	if p == nil {
		return all
	}
	for part, n := range p.parts {
		all[string(part)] = n.used.Load()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.watched {
		all[w.name] += w.bytes()
	}
	return all
}

// Uses is how many leases were ever made and given back: the same twice if no request
// asked for memory meanwhile or ended.
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
		for part, n := range p.parts {
			all[string(part)] = n.refused.Load()
		}
	}
	return all
}
