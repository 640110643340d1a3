// Package parallel spreads work over the cores, and has long work behave.
//
// While and For are loops on several goroutines. A panic in any goroutine that works for a request
// is an error of the request: For and While raise it where they were called, and what starts a
// goroutine otherwise calls its work by Rescue. A loop of many steps asks a Watch at each, which
// lets other work have the core now and then and says when the context has ended.
//
// Start with While.
package parallel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// For calls f for every i below n, from a goroutine a core, and returns when all
// calls have. Where there is one core or one call it makes no goroutine. A panic in f is
// raised again in the caller's goroutine, once the calls under way have returned.
func For(n int, f func(i int)) {
	While(runtime.GOMAXPROCS(0), n, func(_, i int) bool { f(i); return true })
}

// Ranges is For with 64 neighbouring i a call, from one number to below another, for work on one that takes less time
// than a call.
func Ranges(n int, f func(from, to int)) {
	const each = 64
	For((n+each-1)/each, func(i int) { f(i*each, min((i+1)*each, n)) })
}

// While calls f(worker, i) for every i below n from workers goroutines, of which each is a
// worker with a number below workers, as long as f returns true: a worker whose call
// returns false makes no more, and the calls of the others go on. It returns when all
// calls have. A panic in f is raised again in the caller's goroutine, once the calls under
// way have returned. Between calls it lets other work have the cores.
func While(workers, n int, f func(worker, i int) bool) {
	if workers = min(workers, n); workers <= 1 {
		var watch Watch
		defer watch.Leave()
		for i := 0; i < n && f(0, i); i++ {
			watch.Pass()
		}
		return
	}
	var next atomic.Int64
	var panicked atomic.Pointer[error] // the first that did
	work := func(worker int) {
		var watch Watch
		defer watch.Leave()
		for panicked.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= n || !f(worker, i) {
				return
			}
			watch.Pass()
		}
	}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			if err := Rescue(func() error { work(worker); return nil }); err != nil {
				panicked.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if err := panicked.Load(); err != nil {
		panic(*err)
	}
}

// Panic is a panic as an error. The code that reports the error logs the stack.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error implements error.
func (p *Panic) Error() string {
	return fmt.Sprintf("promwarp panicked: %v; its log has the stack", p.Value)
}

// Unwrap is the panic's value where that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Rescue calls f. If f panics, that is the error.
func Rescue(f func() error) (err error) {
	defer Recover(&err)
	return f()
}

// Recover has a function that panics return that as its error: it is to be deferred. A panic that was
// thrown as an error, by those who unwind by panics, stays that.
func Recover(err *error) {
	value := recover()
	if value == nil {
		return
	}
	thrown, ok := value.(error)
	if _, bug := value.(runtime.Error); bug || !ok {
		thrown = &Panic{value, debug.Stack()}
	}
	*err = thrown
}
