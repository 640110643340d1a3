// Package spin waits for what takes microseconds without being put to sleep.
//
// A goroutine that waits for a sync.Mutex is soon put to sleep, and its thread with it where there
// is nothing else to run: to be woken takes 100 us, and who waits behind it is woken only then. Where
// a lock is held for less than that, it is cheaper to look again and again, for as long as it would
// have taken to be woken, before that is left to the mutex.
//
// Start with Lock, Once and Until.
package spin

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// looks is how often is looked before a goroutine is put to sleep: for 25 us on an EPYC, whose
	// pauses are short, and 60 us on a Xeon.
	looks = 128
	// pauses is how many pauses are between two looks: 0.2 to 0.5 us.
	pauses = 8
)

// several is whether others can run meanwhile.
var several = runtime.NumCPU() > 1

// Until looks whether something is so until it is, and reports false if it was not for long.
func Until(so func() bool) bool {
	for range looks {
		if so() {
			return true
		}
		if !several {
			return false
		}
		pause(pauses)
	}
	return false
}

// Lock locks mu, which is held for microseconds at most.
func Lock(mu *sync.Mutex) {
	if !Until(mu.TryLock) {
		mu.Lock()
	}
}

// Once is a sync.Once for what takes microseconds. The zero value has done nothing.
type Once struct {
	done atomic.Bool
	mu   sync.Mutex
}

// Do calls f unless Do of o has called a function before. It returns when that has returned, or
// panicked.
func (o *Once) Do(f func()) {
	if !o.done.Load() {
		o.slow(f)
	}
}

func (o *Once) slow(f func()) {
	Lock(&o.mu)
	defer o.mu.Unlock()
	if !o.done.Load() {
		defer o.done.Store(true)
		f()
	}
}

// Reset makes o one that has done nothing. Nobody else may use it meanwhile.
func (o *Once) Reset() { o.done.Store(false) }
