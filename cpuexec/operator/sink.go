package operator

import (
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// Sink takes finished batches, in series order.
type Sink interface {
	Consume(q *Query, b *Batch)
}

// Selective is a sink that needs some of the series alone. Others need not have values, where nothing is to
// be said of them.
type Selective interface {
	Wants(i int) bool
}

// Bounded is a sink that holds state for every group and step.
type Bounded interface {
	// Size is that of the state, which is a node's: values, and their memory.
	Size() (n plan.Node, cells int, bytes int64)
	Allocate() // allocates it
}

// Reserve lets a sink allocate its state, if that fits.
func (q *Query) Reserve(out Sink) error {
	b, ok := out.(Bounded)
	if !ok {
		return nil
	}
	n, cells, bytes := b.Size()
	if err := q.CheckCells(n, cells); err != nil {
		return err
	}
	q.Charge(bytes)
	if err := q.Done(); err != nil {
		return err
	}
	b.Allocate()
	return nil
}

// Free no longer counts the memory of a sink's state, but that of the rows made of it.
func (q *Query) Free(out Sink, rows []plan.Row) {
	if b, ok := out.(Bounded); ok {
		_, _, bytes := b.Size()
		q.Charge(RowsBytes(rows) - bytes)
	}
}

// SplitSteps splits the steps of a batch over the cores: f is called for ranges
// of whole bitmap words, so that no two goroutines share one.
func (q *Query) SplitSteps(b *Batch, f func(w0, w1 int)) {
	workers := min(q.workersFor(b), b.Words)
	parallel.While(workers, workers, func(_, k int) bool {
		f(k*b.Words/workers, (k+1)*b.Words/workers)
		return true
	})
}

// SplitGroups splits the groups and the steps of a batch over the cores: f is called for
// ranges of whole bitmap words, and for each of them once or for several parts of the groups, of
// which a part are those with the number part modulo parts.
func (q *Query) SplitGroups(b *Batch, groups int, f func(part, parts, w0, w1 int)) {
	workers := q.workersFor(b)
	if 3*workers <= b.Words || groups == 1 { // the ranges are about equally long
		q.SplitSteps(b, func(w0, w1 int) { f(0, 1, w0, w1) })
		return
	}
	parts := min(groups, (4*workers+b.Words-1)/b.Words)
	parallel.While(workers, parts*b.Words, func(_, k int) bool {
		f(k%parts, parts, k/parts, k/parts+1)
		return true
	})
}

// workersFor is the number of goroutines worth starting for the values of a batch.
func (q *Query) workersFor(b *Batch) int {
	points := 0
	for i := range b.N {
		points += b.Counts[i].Mapped
	}
	return q.WorkersFor(points)
}
