package operator

import (
	"slices"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// turns has series added to their groups in order, by the workers that fill them: whoever has
// filled a series adds it, and those behind it that wait, where its turn has come. A worker waits
// for another one only where no row is free.
//
//	group 0:  3 added | 7 being filled | 9 waits, in row 4 | 12 being filled
//
// A group's steps are in parts, each with a turn of its own, so that several workers add to one
// group at once. At each step series are added in order.
//
// Invariant: a row is one worker's, or holds a series that some part waits for, or is free.
type turns struct {
	sink  GroupSink
	b     *Batch
	first int            // number of the first series
	of    []int32        // group of each series, counted from first
	next  []int32        // the next series of the same group, counted so, -1 for none
	rows  []atomic.Int32 // of each series: the row in which it waits, from 1; 0 for none
	left  []atomic.Int32 // of each row: parts that its series is still to be added to
	all   []dense.Counts // of each series
	parts int            // of the steps of a group
	turn  []turn         // parts a group
	free  *freeRows
}

// turn is whose turn it is in a part of a group.
type turn struct {
	series atomic.Int32 // counted from first, -1 for none
	taken  atomic.Bool  // somebody adds
	_      [56]byte     // to the next cache line
}

// partWords is the least number of words, each of 64 steps, for which workers take turns of their
// own: what a turn costs is little beside adding two of them.
const partWords = 2

// stepParts is in how many parts the steps of groups are, the largest of which has so many of all
// series: to add a series takes up to half as long as to fill it, and the workers that add to a
// group should not be slower than those that fill its series.
func stepParts(workers, words, largest, series int) int {
	return max(1, min((workers*largest+2*series-1)/(2*series), words/partWords))
}

// newTurns returns the turns of the series from first on; of has their groups. Each worker has one
// of the first rows.
func newTurns(a GroupSink, of []int32, first, workers int, b *Batch, all []dense.Counts) *turns {
	var sizes []int
	for _, g := range of {
		for int(g) >= len(sizes) {
			sizes = append(sizes, 0)
		}
		sizes[g]++
	}
	n, rows := len(of), len(b.Counts)
	t := &turns{
		sink: a, b: b, first: first, of: of, next: make([]int32, n), rows: make([]atomic.Int32, n), left: make([]atomic.Int32, rows), all: all,
		parts: stepParts(workers, b.Words, slices.Max(sizes), n), free: newFreeRows(workers, rows, workers),
	}
	t.turn = make([]turn, len(sizes)*t.parts)
	for k := range t.turn {
		t.turn[k].series.Store(-1)
	}
	for i := n - 1; i >= 0; i-- {
		group := t.turn[int(of[i])*t.parts:][:t.parts]
		t.next[i] = group[0].series.Load()
		for k := range group {
			group[k].series.Store(int32(i))
		}
	}
	return t
}

// filled has series i added, which is in a row, now or when its turn has come. Each worker begins
// with another part. It reports whether the row is still the caller's.
func (t *turns) filled(worker, i int, row int32) (own bool) {
	t.left[row].Store(int32(t.parts))
	t.rows[i].Store(row + 1)
	for k := range t.parts {
		if t.add((worker+k)%t.parts, i) {
			own = true
		}
	}
	return own
}

// add adds what waits for its turn in a part of series i's group. It reports whether the row of
// series i is free with that, and so the caller's.
func (t *turns) add(part, i int) (own bool) {
	g := &t.turn[int(t.of[i])*t.parts+part]
	w0, w1 := part*t.b.Words/t.parts, (part+1)*t.b.Words/t.parts
	for t.waits(g) && g.taken.CompareAndSwap(false, true) {
		for t.waits(g) {
			at := g.series.Load()
			r := t.rows[at].Load() - 1
			if t.all[at].Mapped > 0 {
				t.sink.AddSteps(int32(t.first)+at, t.b.Row(int(r)), w0, w1)
			}
			g.series.Store(t.next[at])
			switch {
			case t.left[r].Add(-1) > 0: // other parts need the row
			case int(at) == i:
				own = true
			default:
				t.free.put(r)
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
					t.free.giveUp()
				}
			}()
			out := b.Row(int(rows[k]))
			clear(out.Present)
			if !l.fill(k, t.first+i, out, &all[i]) {
				return false
			}
			if !t.filled(k, i, rows[k]) { // who has no series waits, and nobody waits for whom
				rows[k] = t.free.take(k)
			}
			done = rows[k] >= 0
			return done
		})
	})
}
