package operator

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
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

// Feed hands n series to a sink once it has allocated its state. fill writes a series to a row
// without values and says in c how many there are; it is called from several goroutines, of
// which each is a worker. Where fill fails no further batch is made, and its error is Feed's.
func (q *Query) Feed(out Sink, n int, fill func(worker, i int, out dense.Row, c *dense.Counts) error) error {
	if err := q.Reserve(out); err != nil {
		return err
	}
	b, free, err := q.NewBatch(n, q.Workers)
	if err != nil {
		return err
	}
	defer free()
	errs := make([]error, q.Workers)
	for b.Lo = 0; b.Lo < n; b.Lo += b.N {
		if err := q.Done(); err != nil {
			return err
		}
		b.N = min(len(b.Counts), n-b.Lo)
		clear(b.Present)
		parallel.While(q.WorkersFor(b.N*b.Steps), b.N, func(k, i int) bool {
			b.Counts[i] = dense.Counts{}
			errs[k] = fill(k, b.Lo+i, b.Row(i), &b.Counts[i])
			return errs[k] == nil
		})
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		out.Consume(q, b)
	}
	return nil
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
