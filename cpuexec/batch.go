package cpuexec

import (
	"slices"
	"sync"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// batch is a number of consecutive series and their values at every step.
type batch struct {
	lo, n   int // series lo to lo+n
	steps   int
	words   int
	vals    [][]float64 // in parts
	each    int         // series of each part but the last
	present []uint64
	counts  []dense.Counts

	lent bool // the values may stay where they are, and if a sink
	kept bool // says so they do
}

// batchBytes is the size of a batch's values that keeps them in a core's cache
// between the phase that writes and the one that reads them.
const batchBytes = 1 << 20

// newBatch returns a batch for some of so many series; release gives its memory
// back. What is in its rows and counts is left from others.
func newBatch(series, steps, workers int) (b *batch, release func()) {
	n := batchRows(series, steps, workers)
	b = batchPool.Get().(*batch)
	b.lo, b.steps, b.words, b.each = 0, steps, (steps+63)/64, n
	if len(b.vals) == 0 {
		b.vals = make([][]float64, 1)
	}
	b.vals[0] = slices.Grow(b.vals[0][:0], n*steps)[:n*steps]
	b.present = slices.Grow(b.present[:0], n*b.words)[:n*b.words]
	b.counts = slices.Grow(b.counts[:0], n)[:n]
	return b, func() { batchPool.Put(b) }
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

// newBatch is newBatch within the query's memory, of which only large batches take any:
// those of many steps.
func (q *query) newBatch(series, workers int) (b *batch, release func(), err error) {
	steps := q.grid.Steps
	n := int64(8 * steps * batchRows(series, steps, workers))
	if n <= 2*batchBytes {
		b, release = newBatch(series, steps, workers)
		return b, release, nil
	}
	if err := q.budget.Take(n); err != nil {
		return nil, nil, err
	}
	b, free := newBatch(series, steps, workers)
	return b, func() { free(); q.take(-n) }, nil
}

// batchRows is how many of so many series a batch holds.
func batchRows(series, steps, workers int) int {
	return min(max(batchBytes/(8*steps), 4*workers), 1024, max(series, 1))
}

func (b *batch) row(i int) dense.Row {
	part, at := b.vals[0], i
	if i >= b.each {
		part, at = b.vals[i/b.each], i%b.each
	}
	return dense.Row{
		Values:  part[at*b.steps : (at+1)*b.steps],
		Present: b.present[i*b.words : (i+1)*b.words],
	}
}

// sink takes finished batches, in series order.
type sink interface {
	take(q *query, b *batch)
}

// window evaluates w, and the chain above it, over all series, batch by batch,
// into the sink that open makes once the series are known.
func (r *run) window(w *plan.Window, above chain, open func(*source) sink) error {
	vary, free, err := r.holdParams(w, w.Func, w.Params)
	defer free()
	if err != nil {
		return err
	}
	src, err := r.open(w, above)
	if err != nil {
		return err
	}
	src.vary = vary
	return r.evaluate(src, w, above, open(src))
}
