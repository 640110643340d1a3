// Package slab holds encoded chunks: where they lie, and what memory they take.
//
// Chunks lie in slabs, large byte arrays that are never reallocated, and an entry of a table, a
// Chunk, addresses each by slab and offset. A Writer makes slabs.
// Once a writer is done with a slab its bytes stay as they are, so any number of goroutines
// and of selections may share it.
//
// Start with Chunk.
package slab

import (
	"runtime"
	"sync/atomic"
)

// Slab is one large byte array with chunks in it.
type Slab struct {
	b      []byte
	locked bool
}

// New makes a slab with room for size bytes.
func New(size int) *Slab {
	l := &Slab{b: make([]byte, 0, size)}
	CountUntilFreed(l, int64(size))
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

// Add copies a chunk behind those in the slab, which has room for it, and returns where it is.
func (l *Slab) Add(data []byte) (off uint32) {
	off = uint32(len(l.b))
	l.b = append(l.b, data...)[:int(off)+Footprint(uint32(len(data)))]
	return off
}

// Bytes returns the bytes of the slab. They must not be changed.
func (l *Slab) Bytes() []byte { return l.b }

// PageLocked reports whether the slab's memory is page-locked, as PageLock says.
func (l *Slab) PageLocked() bool { return l.locked }

// SizeBytes is the memory that the slab takes, in bytes.
func (l *Slab) SizeBytes() int64 { return int64(cap(l.b)) }

// leastLocked is the size in bytes of the least slab that is worth page-locking.
const leastLocked = 256 << 10

var pageLock atomic.Pointer[func([]byte) func()]

// PageLock lets lock page-lock the memory of each large slab that is made from
// now on, so that a GPU can read it without the help of a core. lock returns what
// undoes that, which is called when nobody uses the slab any more, or nil if it
// cannot. A nil lock ends it.
func PageLock(lock func(memory []byte) (unlock func())) {
	if lock == nil {
		pageLock.Store(nil)
		return
	}
	pageLock.Store(&lock)
}
