package memory

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"
)

const (
	// reclaimShare is the divisor of the limit that gives the fewest bytes that are asked for,
	// so that not every lease asks.
	reclaimShare = 64
	// reclaimRounds bounds how often more is asked for where what came was not enough.
	reclaimRounds = 4
	// countedWithin is how long it may take until what was freed, or found by a collection, is
	// counted off.
	countedWithin = 50 * time.Millisecond
	// relieveEvery is how long no memory is looked for again after there was not enough: a
	// collection costs a good part of all cores.
	relieveEvery = 250 * time.Millisecond
)

// reclaimer is somebody who can free memory.
type reclaimer struct {
	rank    int
	reclaim func(bytes int64) (freed int64)
	asked   int64 // bytes that were reclaimed when it was asked last
}

// OnShortage has reclaim called when a lease does not fit, before that waits for others or
// fails. reclaim frees about as many bytes, which no request needs, and returns how many; that
// they are garbage is enough. Those of a lower rank are asked first, those of one rank in
// turn. Calls come one at a time, from a goroutine of their own. reclaim must neither
// take leases nor wait for who may wait for one. end ends that, but for a call under way.
func (p *Pool) OnShortage(rank int, reclaim func(bytes int64) (freed int64)) (end func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &reclaimer{rank: rank, reclaim: reclaim}
	p.reclaimers = append(p.reclaimers, r)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reclaimers = slices.DeleteFunc(p.reclaimers, func(other *reclaimer) bool { return other == r })
	}
}

// Reclaimed is how many bytes were freed on shortage so far.
func (p *Pool) Reclaimed() int64 {
	if p == nil {
		return 0
	}
	return p.reclaimed.Load()
}

// Spare counts n bytes for what no request needs, which neither waits for memory nor has caches give
// way, and reports whether they are left. The caller that got them counts them off.
func (p *Pool) Spare(part Part, n int64) bool {
	p.Count(part, n)
	if p == nil || p.over() <= 0 && p.waiting.Load() == 0 {
		return true
	}
	p.Count(part, -n)
	return false
}

// take takes n bytes for a lease. It waits for them as long as the pool's wait and ctx allow,
// but for small leases, which have a reserve.
func (l *Lease) take(ctx context.Context, n int64, small bool) error {
	p := l.pool
	p.Count(l.part, n)
	if over := p.over(); over <= 0 || small && over-p.wanted.Load() <= p.Limit()/reserve {
		return nil
	}
	p.wanted.Add(n)
	defer p.wanted.Add(-n)
	if p.waitFor(ctx) {
		return nil
	}
	p.Count(l.part, -n)
	p.parts[l.part].refused.Add(1)
	if err := ctx.Err(); err != nil {
		return err
	}
	return &BusyError{Limit: p.Limit()}
}

// Room waits until what is taken fits, as a lease does, for memory that is counted and not
// leased: it is asked again and again while that grows.
func (p *Pool) Room(ctx context.Context, part Part) error {
	if p == nil {
		return nil
	}
	return (&Lease{pool: p, part: part}).take(ctx, 0, false)
}

// over is by how many bytes more is taken than there is.
func (p *Pool) over() int64 { return p.Used() - p.most.Load() }

// waitFor waits until what is taken fits, and reports whether it does. What waits has
// been counted already, so that of two that do not fit together the second waits. It waits
// longer than the pool's wait only for caches that are giving way.
func (p *Pool) waitFor(ctx context.Context) bool {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	timeout := time.NewTimer(p.wait)
	defer timeout.Stop()
	for {
		freed := p.signal()
		if relieved := p.relieve(); relieved != nil {
			select {
			case <-relieved:
			case <-ctx.Done():
				return false
			}
		}
		if p.over() <= 0 {
			return true
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

// relieve looks for memory for what is taken beyond the limit. The channel is closed when that is
// done; it is nil where there was not enough a moment ago.
func (p *Pool) relieve() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.relieving != nil {
		return p.relieving
	}
	if time.Since(p.barren) < relieveEvery {
		return nil
	}
	done, who := make(chan struct{}), slices.Clone(p.reclaimers)
	p.relieving = done
	go func() {
		p.collect() // garbage goes first
		for range reclaimRounds {
			over := p.over()
			if over <= 0 || p.ask(who, max(over, p.Limit()/reclaimShare)) == 0 {
				break
			}
			if !p.counted() { // what was freed may be garbage
				p.collect()
			}
		}
		enough := p.over() <= 0
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.relieving = nil; !enough {
			p.barren = time.Now()
		}
		close(done)
	}()
	return done
}

// ask asks who for bytes, and returns how many are freed.
func (p *Pool) ask(who []*reclaimer, bytes int64) (freed int64) {
	slices.SortStableFunc(who, func(a, b *reclaimer) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.asked, b.asked))
	})
	for _, r := range who {
		if freed >= bytes {
			break
		}
		n := max(0, r.reclaim(bytes-freed))
		freed += n
		r.asked = p.reclaimed.Add(n)
	}
	return freed
}

// collect has the collector look for garbage and waits until what it found is counted off.
func (p *Pool) collect() {
	runtime.GC()
	p.counted()
}

// counted waits briefly until what is taken fits, and reports whether it does.
func (p *Pool) counted() bool {
	for end := time.Now().Add(countedWithin); time.Now().Before(end); {
		freed := p.signal()
		p.looked.Store(0)
		if p.over() <= 0 {
			return true
		}
		select {
		case <-freed:
		case <-time.After(countedWithin / 10):
		}
	}
	return false
}
