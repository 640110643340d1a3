package cpuexec

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/promwarp/promwarp/plan"
)

// Budget bounds the memory in bytes that one query takes for intermediate
// results and for its answer, over all its parts. A nil Budget has no bound. It
// does not count the samples that are read, which the cache and the limits of
// fetching bound, nor scratch memory, which is a few MB a core.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a budget of max bytes; 0 means no bound.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// MemoryError is the error of a query that needs more than its budget.
type MemoryError struct{ Max int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("query needs more than %d MiB of memory for its result and what leads to it, the limit that query.max-memory sets: ask for fewer series or steps, or raise the limit", e.Max>>20)
}

// Take counts n more bytes, or less if n is negative, and fails if that makes
// more than there may be.
func (b *Budget) Take(n int64) error {
	if b == nil || b.max <= 0 {
		return nil
	}
	if b.used.Add(n) > b.max {
		return &MemoryError{b.max}
	}
	return nil
}

// take counts n more bytes, or less if n is negative. What must not be allocated
// any more shows at the next call of done.
func (r *run) take(n int64) { _ = r.job.Budget.Take(n) }

// rowBytes is the memory of a row with that many values.
func rowBytes(values int) int64 { return int64(unsafe.Sizeof(plan.Row{})) + 8*int64(values) }

// rowsBytes is the memory of rows.
func rowsBytes(rows []plan.Row) (n int64) {
	for i := range rows {
		n += rowBytes(len(rows[i].Values)) + int64(len(rows[i].Runs))*int64(unsafe.Sizeof(plan.Run{}))
	}
	return n
}
