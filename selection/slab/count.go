package slab

import (
	"runtime"
	"sync/atomic"
)

var counter atomic.Pointer[func(bytes int64)]

// CountMemory has count told of the memory that selections take from now on, in bytes:
// slabs, chunk tables, and the labels that no other selection has. What the collector has
// freed is told as a negative number, from a goroutine of its own. A nil count ends it.
func CountMemory(count func(bytes int64)) {
	if count == nil {
		counter.Store(nil)
		return
	}
	counter.Store(&count)
}

// CountUntilFreed counts n bytes that are free once nobody has a pointer to what.
func CountUntilFreed[T any](what *T, n int64) {
	count := counter.Load()
	if count == nil || n == 0 {
		return
	}
	(*count)(n)
	runtime.AddCleanup(what, func(n int64) { (*count)(-n) }, n)
}
