// Package rescue keeps a panic in a goroutine from ending the program: it becomes an error,
// or a panic of the goroutine that waits, which whoever answers a request survives.
//
// Every goroutine that works for a request calls its work by Do or defers Catcher.Catch.
package rescue

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Panic is a panic as an error. Whoever reports the error logs the stack.
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

// of makes an error of a panic's value. One that was thrown as an error, by those who
// unwind by panics, stays that.
func of(value any) error {
	switch v := value.(type) {
	case runtime.Error:
	case error:
		return v
	}
	return &Panic{value, debug.Stack()}
}

// Do calls f. If f panics, that is the error.
func Do(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = of(p)
		}
	}()
	return f()
}

// Catcher holds the first panic of several goroutines. The zero Catcher has none.
type Catcher struct{ first atomic.Pointer[error] }

// Catch is to be deferred in each goroutine.
func (c *Catcher) Catch() {
	if p := recover(); p != nil {
		err := of(p)
		c.first.CompareAndSwap(nil, &err)
	}
}

// Caught reports whether a goroutine has panicked.
func (c *Catcher) Caught() bool { return c.first.Load() != nil }

// Rethrow panics with what was caught, if anything was. It is for the goroutine that has
// waited for the others.
func (c *Catcher) Rethrow() {
	if err := c.first.Load(); err != nil {
		panic(*err)
	}
}
