package selection

import (
	"runtime"
	"sync/atomic"
)

var counter atomic.Pointer[func(bytes int64)]

// CountMemory has count told of the memory that selections take from now on, in bytes:
// slabs, chunk tables, and the labels of what a Builder made. What the collector has
// freed is told as a negative number, from a goroutine of its own. Slabs in mapped files
// are not counted. A nil count ends it.
func CountMemory(count func(bytes int64)) {
	if count == nil {
		counter.Store(nil)
		return
	}
	counter.Store(&count)
}

// counted is memory that is counted as long as somebody has a pointer to it.
type counted struct{ bytes int64 }

// countUntilFreed counts n bytes that are free once nobody has a pointer to what.
func countUntilFreed[T any](what *T, n int64) {
	count := counter.Load()
	if count == nil || n == 0 {
		return
	}
	(*count)(n)
	runtime.AddCleanup(what, func(n int64) { (*count)(-n) }, n)
}

// countTables counts n bytes of tables that s and copies of it share.
func (s *Selection) countTables(n int64) {
	if n < leastCounted {
		return
	}
	s.tables = &counted{n}
	countUntilFreed(s.tables, n)
}

// leastCounted is from how many bytes of tables on these are counted: the small ones of
// small queries cost less than counting them.
const leastCounted = 16 << 10
