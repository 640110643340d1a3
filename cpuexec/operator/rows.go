package operator

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/internal/spin"
)

// freeRows are the row sets of a batch that no worker uses; here each is a row. A worker takes and
// gives back one for each bundle of series, many times in the microseconds that a lock takes to
// change hands, so they are bits that each worker looks for in a word of its own first.
type freeRows struct {
	words   []freeWord
	waiting atomic.Int32  // workers that are put to sleep, or will be
	wake    chan struct{} // for each of them
	stop    chan struct{} // closed once nobody is to wait any more
	once    sync.Once
}

// freeWord has a bit for each of 64 rows that is free.
type freeWord struct {
	rows atomic.Uint64
	_    [56]byte // to the next cache line
}

// newFreeRows returns rows [from, n) for so many workers.
func newFreeRows(from, n, workers int) *freeRows {
	f := &freeRows{
		words: make([]freeWord, max(workers, (n+63)/64)),
		wake:  make(chan struct{}, workers), stop: make(chan struct{}),
	}
	for row := from; row < n; row++ {
		w, bit := f.at(int32(row))
		w.rows.Or(bit)
	}
	return f
}

// at is where the bit of a row is.
func (f *freeRows) at(row int32) (w *freeWord, bit uint64) {
	n := int32(len(f.words))
	return &f.words[row%n], 1 << (row / n)
}

// put gives a row back.
func (f *freeRows) put(row int32) {
	w, bit := f.at(row)
	w.rows.Or(bit)
	if f.waiting.Load() > 0 {
		select {
		case f.wake <- struct{}{}:
		default: // as many are to wake as wait
		}
	}
}

// take returns a free row, or -1 once nobody is to wait.
func (f *freeRows) take(worker int) (row int32) {
	found := func() bool { row = f.find(worker); return row >= 0 }
	if spin.Until(found) {
		return row
	}
	f.waiting.Add(1)
	defer f.waiting.Add(-1)
	for !found() { // again, as a row put back before waiting was set wakes nobody
		select {
		case <-f.wake:
		case <-f.stop:
			return -1
		}
	}
	return row
}

// giveUp lets nobody wait any more.
func (f *freeRows) giveUp() { f.once.Do(func() { close(f.stop) }) }

// find takes a row if one is free, and returns -1 if none is.
func (f *freeRows) find(worker int) int32 {
	n := len(f.words)
	for k := range n {
		at := (worker + k) % n
		w := &f.words[at]
		for {
			rows := w.rows.Load()
			if rows == 0 {
				break
			}
			if w.rows.CompareAndSwap(rows, rows&(rows-1)) {
				return int32(at + n*bits.TrailingZeros64(rows))
			}
		}
	}
	return -1
}
