package operator

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
)

// Budget bounds the memory in bytes that one query takes for intermediate
// results and for its answer. A nil Budget has no bound. It
// does not count the samples that are read, which the cache and the limits of
// fetching bound, nor scratch memory, which is a few MB a core.
type Budget struct {
	Context context.Context // of the query: how long it may wait for memory
	Max     int64           // bytes; 0 means no bound
	Lease   *memory.Lease   // what they come from; nil for a process without a limit. It stays the caller's

	used   atomic.Int64
	failed atomic.Pointer[error] // why there is no more
}

// MemoryError is the error of a query that needs more than its budget.
type MemoryError struct{ Max int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("query needs more than %s of memory for its result and what leads to it, the limit that query.max-memory sets: ask for fewer series or steps, or raise the limit", memory.Size(e.Max))
}

// Charge counts n more bytes, or less if n is negative. It fails with a *MemoryError if
// that makes more than the query may have, and with an error of package memory if the
// process has no more. Once it has failed it always fails.
func (b *Budget) Charge(n int64) error {
	if b == nil {
		return nil
	}
	if err := b.failed.Load(); err != nil {
		return *err
	}
	if n == 0 {
		return nil
	}
	used := b.used.Add(n)
	if b.Max > 0 && used > b.Max {
		return b.fail(&MemoryError{b.Max})
	}
	if err := b.Lease.Grow(b.Context, n); err != nil {
		return b.fail(err)
	}
	return nil
}

func (b *Budget) fail(err error) error {
	b.failed.CompareAndSwap(nil, &err)
	return *b.failed.Load()
}

// Used is how many bytes are counted.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Charge counts n more bytes, or less if n is negative. What must not be allocated
// any more shows at the next call of done.
func (q *Query) Charge(n int64) { _ = q.Budget.Charge(n) }

// SelectorBytes is about the memory of a selector with its matchers until its samples have come:
// its place in the plan, its flight with a goroutine, and the labels that it asks for.
func SelectorBytes(matchers int) int64 { return 24<<10 + 500*int64(matchers) }

// RowBytes is the memory of a row with that many values.
func RowBytes(values int) int64 { return int64(unsafe.Sizeof(plan.Row{})) + 8*int64(values) }

// RowsBytes is the memory of rows.
func RowsBytes(rows []plan.Row) (n int64) {
	for i := range rows {
		n += RowBytes(len(rows[i].Values)) + int64(len(rows[i].Runs))*int64(unsafe.Sizeof(plan.Run{}))
	}
	return n
}

// Points is the number of values of rows.
func Points(rows []plan.Row) (n int) {
	for i := range rows {
		n += len(rows[i].Values)
	}
	return n
}
