package memory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// grain is how many bytes a lease takes of its pool at once, so that small needs cost an
// addition.
const grain = 256 << 10

// Lease is memory that one piece of work has taken. It is safe for concurrent use. A nil
// Lease has no limit and counts nothing.
type Lease struct {
	pool  *Pool
	part  Part
	taken atomic.Int64 // what was asked for, bytes
	held  atomic.Int64 // what the pool gave, bytes: a multiple of grain
}

// Lease returns a lease of nothing yet.
func (p *Pool) Lease(part Part) *Lease {
	if p == nil {
		return nil
	}
	p.uses.Add(1)
	return &Lease{pool: p, part: part}
}

// Grow takes n more bytes, or gives them back if n is negative. It waits for what is not
// there, briefly and no longer than ctx, and then fails with a *BusyError or a
// *TooLargeError. The bytes count as taken even then, until Release.
func (l *Lease) Grow(ctx context.Context, n int64) error {
	if l == nil {
		return nil
	}
	want := l.taken.Add(n)
	if n <= 0 {
		return nil // what was held stays for what comes next
	}
	for {
		held := l.held.Load()
		if want <= held {
			return nil
		}
		more := (want - held + grain - 1) / grain * grain
		if held+more > l.pool.most.Load() {
			l.pool.parts[l.part].refused.Add(1)
			return &TooLargeError{Limit: l.pool.Limit()}
		}
		if !l.held.CompareAndSwap(held, held+more) {
			continue
		}
		err := l.take(ctx, more, held+more <= smallLease)
		if err != nil {
			l.held.Add(-more)
		}
		return err
	}
}

// Shrink gives back all but n bytes.
func (l *Lease) Shrink(n int64) {
	if l == nil {
		return
	}
	l.taken.Store(n)
	keep := (n + grain - 1) / grain * grain
	for {
		held := l.held.Load()
		if held <= keep {
			return
		}
		if l.held.CompareAndSwap(held, keep) {
			l.pool.Count(l.part, keep-held)
			return
		}
	}
}

// Release gives everything back. The lease can be used again.
func (l *Lease) Release() {
	if l != nil && l.held.Load() > 0 {
		l.pool.uses.Add(1)
	}
	l.Shrink(0)
}

// FlagLimit is the flag that sets the memory of the process.
const FlagLimit = "memory.limit"

// BusyError is the error of a lease that does not fit beside what others hold at present.
type BusyError struct{ Limit int64 }

func (e *BusyError) Error() string {
	return fmt.Sprintf("promwarp is out of memory for the moment: too little of --%s=%s is left, and promwarp_memory_bytes at /metrics says what holds it; try again, or raise the limit", FlagLimit, Size(e.Limit))
}

// TooLargeError is the error of a lease that does not fit even if nothing else were held.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request needs more memory than promwarp has, which is --%s=%s: ask for fewer series or a shorter time, or raise the limit", FlagLimit, Size(e.Limit))
}

// Size is a number of bytes as errors have it: in MiB, or in a smaller unit where it is less than one.
func Size(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Exhausted reports whether err is of a lease that did not fit.
func Exhausted(err error) bool {
	return errors.As(err, new(*BusyError)) || errors.As(err, new(*TooLargeError))
}
