package operator

import "github.com/promwarp/promwarp/cpuexec/dense"

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

// newBatch returns a batch for some of so many series; release gives its memory
// back. What is in its rows and counts is left from others.
func newBatch(series, steps, workers int) (b *Batch, release func()) {
	n := batchRows(series, steps, workers)
	select {
	case b = <-spare:
	default:
		b = &Batch{Values: make([][]float64, 1)}
	}
	b.Lo, b.Steps, b.Words, b.Each = 0, steps, (steps+63)/64, n
	b.Values[0] = sized(b.Values[0], n*steps)
	b.Present = sized(b.Present, n*b.Words)
	b.Counts = sized(b.Counts, n)
	return b, func() {
		if 8*cap(b.Values[0]) <= uncharged(workers) {
			select {
			case spare <- b:
			default:
			}
		}
	}
}

// sized is s, or fresh memory, of length n.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// spare are batches that no query has, shared by all cores: a sync.Pool has one a core, which other
// cores do not find.
var spare = make(chan *Batch, 4)

// NewBatch returns a batch for some of so many series; release gives its memory back. What is
// in its rows and counts is left from others. Only large batches, those of many steps, are
// charged to the query.
func (q *Query) NewBatch(series, workers int) (b *Batch, release func(), err error) {
	steps := q.Grid.Steps
	n := 8 * steps * batchRows(series, steps, workers)
	if n <= uncharged(workers) {
		b, release = newBatch(series, steps, workers)
		return b, release, nil
	}
	if err := q.Budget.Charge(int64(n)); err != nil {
		return nil, nil, err
	}
	b, free := newBatch(series, steps, workers)
	return b, func() { free(); q.Charge(int64(-n)) }, nil
}

// uncharged is up to how many bytes of values a batch for so many workers is no query's memory.
func uncharged(workers int) int { return max(workers, 2) * batchBytes }

// batchRows is how many of so many series a batch holds.
func batchRows(series, steps, workers int) int {
	return min(max(batchBytes*max(workers/2, 1)/(8*steps), 4*workers), 1024, max(series, 1))
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
