package memory

import (
	"context"
	"runtime"
	"time"
)

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

// takeSpare takes n bytes for part if they are left, and reports whether they are.
func (p *Pool) takeSpare(part Part, n int64) bool {
	p.Count(part, n)
	if p.over() <= 0 && p.waiting.Load() == 0 {
		return true
	}
	p.Count(part, -n)
	return false
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
		for _, try := range []func() <-chan struct{}{p.clean, func() <-chan struct{} { return p.reclaim(began) }} {
			select {
			case <-try():
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

// clean has the collector look for garbage, which gives back what is counted until then. The
// channel is closed when it has: on a busy machine that may be long after whoever waits must answer.
func (p *Pool) clean() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.cleaned) < cleanEvery {
		return ended
	}
	p.cleaned = time.Now()
	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		runtime.GC()
	}()
	return cleaned
}

// ended is a channel that is closed.
var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
