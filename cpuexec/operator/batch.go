package operator

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// Batch is a number of consecutive series and their values at every step.
type Batch struct {
	Lo, N   int // series Lo to Lo+N
	Steps   int
	Words   int         // of 64 steps
	Values  [][]float64 // in parts
	Each    int         // series of each part but the last
	Present []uint64    // bitmaps, Words a series
	Counts  []dense.Counts

	Lent     bool // the values may stay where they are
	Retained bool // they do: a sink sets it
}

// batchBytes is the size of a batch's values that keeps them in the cores' caches
// between the phase that writes and the one that reads them, for a pair of cores: each phase
// ends when the last of its workers does, so more of them need more to share.
const batchBytes = 1 << 20

// spare are batches that no query has, shared by all cores: a sync.Pool has one a core, which other
// cores do not find.
var spare = make(chan *Batch, 4)

// NewBatch returns a batch for some of a number of series; release gives its memory back. What is
// in its rows and counts is left from others. Only large batches, those of many steps, are
// charged to the query.
func (q *Query) NewBatch(series, workers int) (b *Batch, release func(), err error) {
	steps := q.Grid.Steps
	n := min(max(batchBytes*max(workers/2, 1)/(8*steps), 4*workers), 1024, max(series, 1)) // rows
	if 8*n*steps > max(workers, 2)*batchBytes {
		if err := q.Budget.Charge(int64(8 * n * steps)); err != nil {
			return nil, nil, err
		}
		b, release = &Batch{Values: make([][]float64, 1)}, func() { q.Charge(int64(-8 * n * steps)) }
	} else {
		select {
		case b = <-spare:
		default:
			b = &Batch{Values: make([][]float64, 1)}
		}
		release = func() {
			select {
			case spare <- b:
			default:
			}
		}
	}
	b.Lo, b.Steps, b.Words, b.Each = 0, steps, (steps+63)/64, n
	b.Values[0] = slices.Grow(b.Values[0][:0], n*steps)[:n*steps]
	b.Present = slices.Grow(b.Present[:0], n*b.Words)[:n*b.Words]
	b.Counts = slices.Grow(b.Counts[:0], n)[:n]
	return b, release, nil
}

// Row is the row of series Lo+i.
func (b *Batch) Row(i int) dense.Row {
	part, at := b.Values[0], i
	if i >= b.Each {
		part, at = b.Values[i/b.Each], i%b.Each
	}
	return dense.Row{
		Values:  part[at*b.Steps : (at+1)*b.Steps],
		Present: b.Present[i*b.Words : (i+1)*b.Words],
	}
}
