// Package operator has what all operators of a query share.
//
// A Query says at which steps, by how many goroutines and within which limits a node is
// evaluated, and gathers in a plan.Matrix what that took and what there is to say of it. Batches
// of dense rows, in the order of their series, flow into a Sink. Budget bounds the memory of a
// whole query; SampleLimit follows how many samples Prometheus's engine would hold.
//
// An operator asks Query.Done before each batch and ends with its error.
//
// Start with Query and Sink.
package operator

import (
	"context"
	"math/bits"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
)

// Query is what all operators of a query need: its steps, its limits, and where they note what
// it took and what there is to say of it.
type Query struct {
	Context context.Context
	Grid    plan.Grid
	Workers int // goroutines

	Budget             *Budget
	MaxSamples         int  // Prometheus's limit on samples held at once; 0 means none
	DelayedNameRemoval bool // metric names are removed when the query ends, not before
	// Merging says that series may become the same, which are then merged. Else a node in which some
	// do is declined.
	Merging bool

	Matrix *plan.Matrix
	// Held is the number of samples that Prometheus's engine would hold besides
	// those of the node being evaluated.
	Held int
	// Beside is how many more it may hold at most, of what is evaluated later.
	Beside int
}

// InlineSamples is the number of samples below which starting goroutines costs
// more than it saves.
const InlineSamples = 20_000

// WorkersFor is the number of goroutines worth starting for a number of values.
func (q *Query) WorkersFor(values int) int {
	if values < InlineSamples {
		return 1
	}
	return q.Workers
}

// Note adds a warning or an info to the result.
func (q *Query) Note(err error) { q.Matrix.Annotations.Add(err) }

// Done returns Prometheus's error for a query whose context has ended, and a
// *MemoryError for one that needs more memory than it may take.
func (q *Query) Done() error {
	if err := plan.Ended(q.Context); err != nil {
		return err
	}
	return q.Budget.Charge(0)
}

// Repeated returns n notes, each from one, merged into one; n is meant
// modulo 2^64, since the numbers of many steps overflow.
func Repeated(one func() error, n uint64) (a annotations.Annotations) {
	a.Add(one())
	if n == 0 {
		for range 64 {
			a.Merge(a)
		}
		return a
	}
	for b := bits.Len64(n) - 2; b >= 0; b-- {
		a.Merge(a)
		if n>>b&1 == 1 {
			a.Add(one())
		}
	}
	return a
}
