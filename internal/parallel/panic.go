package parallel

import (
	"fmt"
	"runtime"
	"runtime/debug"
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

// Rescue calls f. If f panics, that is the error. One that was thrown as an error, by those who
// unwind by panics, stays that.
func Rescue(f func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		thrown, ok := value.(error)
		if _, bug := value.(runtime.Error); bug || !ok {
			thrown = &Panic{value, debug.Stack()}
		}
		err = thrown
	}()
	return f()
}
