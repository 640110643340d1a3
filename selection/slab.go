package selection

import (
	"runtime"
	"sync/atomic"
)

// Slab is one large byte array with chunks in it. Once the selection that it was
// made for is built, its bytes stay as they are.
type Slab struct {
	b      []byte
	locked bool
	mapped any // keeps a mapped file open; nil for memory of the program's own
}

// Bytes returns the bytes of the slab. They must not be changed.
func (l *Slab) Bytes() []byte { return l.b }

// PageLocked reports whether the slab's memory is page-locked, as PageLockSlabs
// says. Slabs in mapped files never are.
func (l *Slab) PageLocked() bool { return l.locked }

// SizeBytes is the memory that the slab takes, in bytes: none if it is in a
// mapped file.
func (l *Slab) SizeBytes() int64 {
	if l.mapped != nil {
		return 0
	}
	return int64(cap(l.b))
}

// Slab returns slab k. A slab is the same in all selections that share it.
func (s *Selection) Slab(k int) *Slab { return s.slabs[k] }

// NumSlabs is the number of slabs that chunks lie in.
func (s *Selection) NumSlabs() int { return len(s.slabs) }

// leastLocked is the size in bytes of the least slab that is worth page-locking.
const leastLocked = 256 << 10

var pageLock atomic.Pointer[func([]byte) func()]

// PageLockSlabs lets lock page-lock the memory of each large slab that is made from
// now on, so that a GPU can read it without the help of a core. lock returns what
// undoes that, which is called when nobody uses the slab any more, or nil if it
// cannot. A nil lock ends it.
func PageLockSlabs(lock func(memory []byte) (unlock func())) {
	if lock == nil {
		pageLock.Store(nil)
		return
	}
	pageLock.Store(&lock)
}

// newSlab makes a slab with room for size bytes, of which n are in use.
func newSlab(n, size int) *Slab {
	l := &Slab{b: make([]byte, n, size)}
	countUntilFreed(l, int64(size))
	lock := pageLock.Load()
	if lock == nil || size < leastLocked {
		return l
	}
	if unlock := (*lock)(l.b[:size:size]); unlock != nil {
		l.locked = true
		// What unlocks holds on to the memory, so nobody else gets it before.
		runtime.AddCleanup(l, func(unlock func()) { unlock() }, unlock)
	}
	return l
}
