package operator

import (
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// turns has series added to their groups in order, by the workers that fill them: whoever has
// filled the series whose turn it is adds that, and those behind it that are waiting. A worker
// waits for another one only where no row is free.
//
//	group 0:  3 added | 7 being filled | 9 waits, in row 4 | 12 being filled
//
// Invariant: a row is one worker's, or holds a series that waits, or is free.
type turns struct {
	sink  GroupSink
	b     *Batch
	first int            // number of the first series
	of    []int32        // group of each series, counted from first
	next  []int32        // the next series of the same group, counted so, -1 for none
	rows  []atomic.Int32 // of each series: the row in which it waits, from 1; 0 for none
	all   []dense.Counts // of each series
	group []turn
	free  chan int32
	stop  chan struct{} // closed once a worker has given up
	once  sync.Once
}

// turn is whose turn it is in a group.
type turn struct {
	series atomic.Int32 // counted from first, -1 for none
	taken  atomic.Bool  // somebody adds
	_      [56]byte     // to the next cache line
}

// newTurns returns the turns of the series from first on; of has their groups. Each worker has one
// of the first rows.
func newTurns(a GroupSink, of []int32, first, workers int, b *Batch, all []dense.Counts) *turns {
	n, groups := len(of), 0
	for _, g := range of {
		groups = max(groups, int(g)+1)
	}
	t := &turns{
		sink: a, b: b, first: first, of: of, next: make([]int32, n), rows: make([]atomic.Int32, n), all: all,
		group: make([]turn, groups), free: make(chan int32, len(b.Counts)), stop: make(chan struct{}),
	}
	for g := range t.group {
		t.group[g].series.Store(-1)
	}
	for i := n - 1; i >= 0; i-- {
		s := &t.group[of[i]].series
		t.next[i] = s.Load()
		s.Store(int32(i))
	}
	for row := workers; row < len(b.Counts); row++ {
		t.free <- int32(row)
	}
	return t
}

// giveUp lets nobody wait any more.
func (t *turns) giveUp() { t.once.Do(func() { close(t.stop) }) }

// row returns a free row, or -1 once a worker has given up.
func (t *turns) row() int32 {
	select {
	case row := <-t.free:
		return row
	default:
	}
	select {
	case row := <-t.free:
		return row
	case <-t.stop:
		return -1
	}
}

// filled has series i added, which is in a row, now or when its turn has come. It reports whether
// the row is still the caller's.
func (t *turns) filled(i int, row int32) (own bool) {
	t.rows[i].Store(row + 1)
	g := &t.group[t.of[i]]
	for t.waits(g) && g.taken.CompareAndSwap(false, true) {
		for t.waits(g) {
			at := g.series.Load()
			r := t.rows[at].Load() - 1
			if t.all[at].Mapped > 0 {
				t.sink.AddSeries(int32(t.first)+at, t.b.Row(int(r)))
			}
			g.series.Store(t.next[at])
			if int(at) == i {
				own = true
			} else {
				t.free <- r
			}
		}
		g.taken.Store(false)
	}
	return own
}

// waits reports whether the series waits whose turn it is.
func (t *turns) waits(g *turn) bool {
	i := g.series.Load()
	return i >= 0 && t.rows[i].Load() > 0
}

// inTurn has workers fill the series, in order, and add each to its group, of holds which, when
// its turn has come.
func (l *Loop) inTurn(a GroupSink, of []int32, b *Batch, workers int) error {
	return l.alone(func(all []dense.Counts) error {
		t := newTurns(a, of, l.Next, workers, b, all)
		rows := make([]int32, workers)
		for k := range rows {
			rows[k] = int32(k)
		}
		return l.each(workers, len(of), func(k, i int) bool {
			done := false
			defer func() {
				if !done { // or it panicked
					t.giveUp()
				}
			}()
			out := b.Row(int(rows[k]))
			clear(out.Present)
			if !l.fill(k, t.first+i, out, &all[i]) {
				return false
			}
			if !t.filled(i, rows[k]) { // who has no series waits, and nobody waits for whom
				rows[k] = t.row()
			}
			done = rows[k] >= 0
			return done
		})
	})
}
