package gpuexec

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// lender has the page-locked memory that rows are copied back to and stay in until
// whoever asked for them has done with them. Then it is lent again: to lock memory
// takes as long as to copy it many times. It is taken as it is needed, up to a bound,
// and then kept.
//
// The memory is the garbage collector's own, so that what is not given back is found
// once nobody refers to it.
type lender struct {
	dev *cuda.Device

	mu     sync.Mutex
	left   int // buffers that may still be taken
	free   []*rowBuffer
	stuck  []*rowBuffer
	closed bool
}

// rowBuffer is a piece of page-locked memory.
type rowBuffer [rowBufferValues]float64

// rowBufferValues is the number of values of a buffer, 4 MiB: few enough that the rows of
// a small query do not keep many from others, and enough for rows of as many steps as a
// range query may have, and for the link.
const rowBufferValues = 512 << 10

func newLender(dev *cuda.Device, bytes int64) *lender {
	return &lender{dev: dev, left: int(max(bytes, 0) / (8 * rowBufferValues))}
}

func (s *rowBuffer) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
}

// lend returns n buffers, or none if there are not so many. What is in them is left
// from others.
func (l *lender) lend(n int) []*rowBuffer {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.free) < n {
		if l.closed || len(l.free)+l.left < n {
			return nil
		}
		s := new(rowBuffer)
		useHugePages(s.bytes())
		if l.dev.Do(func(c *cuda.Context) error { return c.RegisterHost(s.bytes()) }) != nil {
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

// spoilReturned, if it is set, changes what was given back, for tests of who looks at it.
var spoilReturned func(*rowBuffer)

// giveBack takes buffers that nobody looks at any more. Those that the device may yet
// write to are never lent again.
func (l *lender) giveBack(all []*rowBuffer, quiet bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !quiet {
		l.stuck = append(l.stuck, all...)
		return
	}
	for _, s := range all {
		if spoilReturned != nil {
			spoilReturned(s)
		}
		if l.closed {
			l.unlock(s)
		} else {
			l.free = append(l.free, s)
		}
	}
}

// found takes a buffer that nobody refers to any more.
func (l *lender) found(s *rowBuffer) {
	runtime.SetFinalizer(s, l.found)
	l.giveBack([]*rowBuffer{s}, true)
}

// unlock lets go of a buffer.
func (l *lender) unlock(s *rowBuffer) {
	runtime.SetFinalizer(s, nil)
	_ = l.dev.Do(func(c *cuda.Context) error { return c.UnregisterHost(s.bytes()) }) // fails where the device is closed
}

// release lets go of what is not lent now. The rest is let go of as it is given back.
func (l *lender) release(c *cuda.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, s := range l.free {
		runtime.SetFinalizer(s, nil)
		errs = append(errs, c.UnregisterHost(s.bytes()))
	}
	l.free = nil
	return errors.Join(errs...)
}
