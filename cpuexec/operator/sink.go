package operator

import (
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// Sink takes finished batches, in series order.
type Sink interface {
	Consume(q *Query, b *Batch)
}

// Bounded is a sink that holds state for every group and step.
type Bounded interface {
	Owner() plan.Node               // whose state it is
	TooLarge(maxSamples int) string // why the state would not fit, or nothing
	Bytes() int64                   // memory of the state
	Allocate()                      // allocates it
}

// Reserve lets a sink allocate its state, if that fits.
func (q *Query) Reserve(out Sink) error {
	b, ok := out.(Bounded)
	if !ok {
		return nil
	}
	if reason := b.TooLarge(q.MaxSamples); reason != "" {
		return &plan.Declined{At: b.Owner(), Reason: reason}
	}
	q.Charge(b.Bytes())
	if err := q.Done(); err != nil {
		return err
	}
	b.Allocate()
	return nil
}

// Free no longer counts the memory of a sink's state, but that of the rows made of it.
func (q *Query) Free(out Sink, rows []plan.Row) {
	if b, ok := out.(Bounded); ok {
		q.Charge(RowsBytes(rows) - b.Bytes())
	}
}

// SplitSteps splits the steps of a batch over the cores: f is called for ranges
// of whole bitmap words, so that no two goroutines share one.
func (q *Query) SplitSteps(b *Batch, f func(w0, w1 int)) {
	points := 0
	for i := range b.N {
		points += b.Counts[i].Mapped
	}
	workers := min(q.WorkersFor(points), b.Words)
	parallel.While(workers, workers, func(_, k int) bool {
		f(k*b.Words/workers, (k+1)*b.Words/workers)
		return true
	})
}
