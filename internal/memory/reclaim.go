package memory

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// shortage is what a pool does when a lease does not fit: it asks for memory that no request
// needs, such as a cache's.
type shortage struct {
	freed atomic.Int64 // bytes so far

	mu         sync.Mutex
	reclaimers []reclaimer   // in the order in which they are asked; never changed in place
	number     int           // of reclaimers there ever were
	running    chan struct{} // closed when the call under way has ended; nil when there is none
	barren     time.Time     // when a call last freed nothing
}

// reclaimer is somebody who can free memory.
type reclaimer struct {
	number, rank int
	reclaim      func(bytes int64) (freed int64)
}

const (
	// reclaimShare is the least part of the limit, one in so many bytes, that is asked for,
	// so that not every lease asks.
	reclaimShare = 64
	// reclaimRounds bounds how often more is asked for where what came was not enough.
	reclaimRounds = 4
	// countedWithin is how long it may take, after a collection, until what it found is
	// counted off.
	countedWithin = 50 * time.Millisecond
)

// OnShortage has reclaim called when a lease does not fit, before that waits for others or
// fails. reclaim frees about so many bytes that no request needs, and returns how many; that
// they are garbage is enough. Those of a lower rank are asked first, those of one rank for
// equal shares. Calls come one at a time, from a goroutine of their own. reclaim must neither
// take leases nor wait for who may wait for one. end ends that, but for a call under way.
func (p *Pool) OnShortage(rank int, reclaim func(bytes int64) (freed int64)) (end func()) {
	if p == nil {
		return func() {}
	}
	s := &p.shortage
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	number := s.number
	s.reclaimers = append(slices.Clone(s.reclaimers), reclaimer{number, rank, reclaim})
	slices.SortStableFunc(s.reclaimers, func(a, b reclaimer) int { return cmp.Compare(a.rank, b.rank) })
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reclaimers = slices.DeleteFunc(slices.Clone(s.reclaimers), func(r reclaimer) bool { return r.number == number })
	}
}

// Reclaimed is how many bytes were freed on shortage so far.
func (p *Pool) Reclaimed() int64 {
	if p == nil {
		return 0
	}
	return p.shortage.freed.Load()
}

// reclaim has memory freed for what is taken beyond the limit, for a lease that has waited
// since began. The channel is closed when that is done, at once where nobody can free
// anything, or nobody could a moment ago.
func (p *Pool) reclaim(began time.Time) (done <-chan struct{}) {
	s := &p.shortage
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	if len(s.reclaimers) == 0 || time.Since(s.barren) < cleanEvery {
		return ended
	}
	running, who := make(chan struct{}), s.reclaimers
	s.running = running
	go func() {
		enough := p.reclaimFrom(who, began)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running = nil; !enough {
			s.barren = time.Now()
		}
		close(running)
	}()
	return running
}

// reclaimFrom asks who until what is taken fits, and reports whether it does.
func (p *Pool) reclaimFrom(who []reclaimer, began time.Time) bool {
	p.mu.Lock()
	cleaned := p.cleaned
	p.mu.Unlock()
	if cleaned.Before(began) {
		p.collect() // garbage goes first
	} else {
		p.counted(cleaned)
	}
	for range reclaimRounds {
		over := p.over()
		if over <= 0 {
			break
		}
		n := ask(who, max(over, p.Limit()/reclaimShare))
		if n == 0 {
			break
		}
		p.shortage.freed.Add(n)
		p.collect()
	}
	return p.over() <= 0
}

// ask asks rank by rank for bytes, and returns how many are freed.
func ask(who []reclaimer, bytes int64) (freed int64) {
	for len(who) > 0 && freed < bytes {
		n := slices.IndexFunc(who, func(r reclaimer) bool { return r.rank != who[0].rank })
		if n < 0 {
			n = len(who)
		}
		for i, r := range who[:n] { // for shares
			share := (bytes - freed + int64(n-i) - 1) / int64(n-i)
			if share > 0 {
				freed += max(0, r.reclaim(share))
			}
		}
		for _, r := range who[:n] { // for what others could not give
			if n > 1 && freed < bytes {
				freed += max(0, r.reclaim(bytes-freed))
			}
		}
		who = who[n:]
	}
	return freed
}

// collect has the collector look for garbage and waits until what it found is counted off.
func (p *Pool) collect() {
	p.mu.Lock()
	p.cleaned = time.Now()
	p.mu.Unlock()
	runtime.GC()
	p.counted(time.Now())
}

// counted waits until what is taken fits, or what a collection at the given time found is
// counted off.
func (p *Pool) counted(collection time.Time) {
	for end := collection.Add(countedWithin); time.Now().Before(end); {
		freed := p.signal()
		p.looked.Store(0)
		if p.over() <= 0 {
			return
		}
		select {
		case <-freed:
		case <-time.After(countedWithin / 10):
		}
	}
}
