// Package pinned is the host's page-locked memory, which devices copy at the full speed of the
// link: a Lender of buffers that results stay in, and the slabs of selections.
package pinned

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection/slab"
)

// Lender has the page-locked memory that rows are copied back to and stay in until
// the borrower has done with them. Then it is lent again: to lock memory
// takes as long as to copy it many times. It is taken as it is needed, up to a bound,
// and then kept.
//
// The memory is the garbage collector's own, so that what is not given back is found
// once nothing refers to it.
type Lender struct {
	dev *cuda.Device

	mu     sync.Mutex
	left   int // buffers that may still be taken
	free   []*Buffer
	stuck  []*Buffer
	closed bool
}

// Buffer is a piece of page-locked memory.
type Buffer [BufferValues]float64

// BufferValues is the number of values of a buffer, 4 MiB: few enough that the rows of
// a small query do not keep many from others, and enough for rows of as many steps as a
// range query may have, and for the link.
const BufferValues = 512 << 10

func NewLender(dev *cuda.Device, bytes int64) *Lender {
	return &Lender{dev: dev, left: int(max(bytes, 0) / (8 * BufferValues))}
}

// Unlocked returns n buffers of the heap, all of whose pages are there: a driver that locks pages, or
// copies to pages, that are not takes five times as long.
func Unlocked(n int) []*Buffer {
	all := make([]*Buffer, max(0, n))
	parallel.For(len(all), func(i int) {
		all[i] = new(Buffer)
		for k := 0; k < BufferValues; k += os.Getpagesize() / 8 {
			all[i][k] = 0
		}
	})
	return all
}

func (s *Buffer) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
}

// Lend returns n buffers, or none if there are fewer. What is in them is left
// from others.
func (l *Lender) Lend(n int) []*Buffer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.free)+l.left < n {
		return nil
	}
	for _, s := range Unlocked(n - len(l.free)) {
		if l.dev.Do(func(c *cuda.Context) error { return c.RegisterHost(s.Bytes()) }) != nil {
			l.left = 0 // as much as the system lets lock
			return nil
		}
		l.left--
		runtime.SetFinalizer(s, l.found)
		l.free = append(l.free, s)
	}
	at := len(l.free) - n
	all := slices.Clone(l.free[at:])
	clear(l.free[at:]) // it does not refer to them any more
	l.free = l.free[:at]
	return all
}

// SpoilReturned, if it is set, changes what was given back, for tests of who looks at it.
var SpoilReturned func(*Buffer)

// GiveBack takes buffers that are not read any more. Buffers that the device may yet
// write to are never lent again.
func (l *Lender) GiveBack(all []*Buffer, quiet bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !quiet {
		l.stuck = append(l.stuck, all...)
		return
	}
	for _, s := range all {
		if SpoilReturned != nil {
			SpoilReturned(s)
		}
		if l.closed {
			l.unlock(s)
		} else {
			l.free = append(l.free, s)
		}
	}
}

// found takes a buffer that nothing refers to any more.
func (l *Lender) found(s *Buffer) {
	runtime.SetFinalizer(s, l.found)
	l.GiveBack([]*Buffer{s}, true)
}

// Counts says how many buffers are free, how many may still be taken, and how many are never
// lent again.
func (l *Lender) Counts() (free, left, stuck int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.free), l.left, len(l.stuck)
}

// unlock lets go of a buffer.
func (l *Lender) unlock(s *Buffer) {
	runtime.SetFinalizer(s, nil)
	_ = l.dev.Do(func(c *cuda.Context) error { return c.UnregisterHost(s.Bytes()) }) // fails where the device is closed
}

// Release lets go of what is not lent now. The rest is let go of as it is given back.
func (l *Lender) Release(c *cuda.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, s := range l.free {
		runtime.SetFinalizer(s, nil)
		errs = append(errs, c.UnregisterHost(s.Bytes()))
	}
	l.free = nil
	return errors.Join(errs...)
}

// PageLockSlabs lets a device page-lock the memory of slabs from now on, so that their
// chunks are copied to devices at the full speed of the link and without a core's
// help. Memory that cannot be locked is used as it is.
func PageLockSlabs(dev *cuda.Device) {
	slab.PageLock(func(memory []byte) func() {
		if err := dev.Do(func(c *cuda.Context) error { return c.RegisterHost(memory) }); err != nil {
			return nil
		}
		return func() {
			go func() {
				_ = dev.Do(func(c *cuda.Context) error { return c.UnregisterHost(memory) }) // fails where the device is closed
			}()
		}
	})
}
