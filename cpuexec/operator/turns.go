package operator

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// turns has series added to their groups in order, by the workers that fill them. A worker fills a
// bundle: a few series of one group. If the bundle's turn has come, the worker adds it to the group,
// and then the bundles behind it that are filled already. If not, the bundle waits in its row set,
// and the worker that adds the bundle before it adds it. A worker waits for another one only where
// no row set is free. The group's sums are in another core's cache most often, and come from there once a
// bundle.
//
//	group 0:  3 7 8 9 added | 12 15 16 18 being filled | 21 22 30 31 wait, in row set 4
//
// A group's steps are in parts, each with a turn of its own, so that several workers add to one
// group at once. At each step series are added in order.
//
// Invariant: a row set, rows for a bundle, is one worker's, or holds a bundle that some part waits
// for, or is free.
type turns struct {
	sink    GroupSink
	b       *Batch
	first   int            // number of the first series
	series  []int32        // those of all bundles, counted from first
	bundles []bundle       // in the order of their first series
	each    int            // the most series of a bundle
	rowSets []atomic.Int32 // of each bundle: the row set in which it waits, from 1; 0 for none
	left    []atomic.Int32 // of each row set: parts that its bundle is still to be added to
	all     []dense.Counts // of each series
	parts   int            // of the steps of a group
	turn    []turn         // parts a group
	free    chan int32     // row sets that no worker uses
}

// bundle is some series of a group, one after the other: series[lo:hi] of turns.
type bundle struct {
	group, lo, hi int32
	next          int32 // the group's next bundle, -1 for none
}

// turn is whose turn it is in a part of a group.
type turn struct {
	bundle atomic.Int32 // -1 for none
	taken  atomic.Bool  // somebody adds
	_      [56]byte     // to the next cache line
}

// partWords is the least number of words, each of 64 steps, for which workers take turns of their
// own: what a turn costs is little beside adding two of them.
const partWords = 2

// newTurns returns the turns of the series from first on; groups has their groups.
func newTurns(a GroupSink, groups []int32, first, workers int, b *Batch, all []dense.Counts) *turns {
	var sizes []int32
	for _, g := range groups {
		for int(g) >= len(sizes) {
			sizes = append(sizes, 0)
		}
		sizes[g]++
	}
	n, rows := len(groups), len(b.Counts)
	// To add a series takes up to half as long as to fill it, and the workers that add to a group should
	// not be slower than those that fill its series.
	parts := max(1, min((workers*int(slices.Max(sizes))+2*n-1)/(2*n), b.Words/partWords))
	each := max(1, min(Neighbours(workers, n), rows/(4*workers))) // each worker finds four row sets
	t := &turns{
		sink: a, b: b, first: first, each: each, series: make([]int32, n), left: make([]atomic.Int32, rows/each), all: all,
		parts: parts, free: make(chan int32, rows/each),
	}
	for rowSet := range rows / each {
		t.free <- int32(rowSet)
	}
	t.turn = make([]turn, len(sizes)*t.parts)
	t.divide(groups, sizes)
	t.rowSets = make([]atomic.Int32, len(t.bundles))
	return t
}

// divide divides the series into bundles, and gives the first of each group its turn.
func (t *turns) divide(groups, sizes []int32) {
	last := make([]int32, len(sizes)) // of each group: its last bundle so far, -1 for none
	end := make([]int32, len(sizes))  // of each group: where its next series belongs
	for g := range sizes {
		last[g] = -1
		if g > 0 {
			end[g] = end[g-1] + sizes[g-1]
		}
	}
	for i := range t.turn {
		t.turn[i].bundle.Store(-1)
	}
	t.bundles = make([]bundle, 0, len(groups)/t.each+len(sizes))
	for i, g := range groups {
		before := last[g]
		if before < 0 || t.bundles[before].hi-t.bundles[before].lo == int32(t.each) {
			last[g] = int32(len(t.bundles))
			t.bundles = append(t.bundles, bundle{group: g, lo: end[g], hi: end[g], next: -1})
			if before >= 0 {
				t.bundles[before].next = last[g]
			} else {
				for k := range t.parts {
					t.turn[int(g)*t.parts+k].bundle.Store(last[g])
				}
			}
		}
		t.series[end[g]] = int32(i)
		end[g]++
		t.bundles[last[g]].hi = end[g]
	}
}

// filled has a bundle added, which is in a row set, now or when its turn has come. Each worker begins
// with another part. It reports whether the row set is still the caller's.
func (t *turns) filled(worker, i int, rowSet int32) (own bool) {
	t.left[rowSet].Store(int32(t.parts))
	t.rowSets[i].Store(rowSet + 1)
	for k := range t.parts {
		if t.add((worker+k)%t.parts, i) {
			own = true
		}
	}
	return own
}

// add adds what waits for its turn in a part of bundle i's group. It reports whether the row set of
// bundle i is free with that, and so the caller's.
func (t *turns) add(part, i int) (own bool) {
	g := &t.turn[int(t.bundles[i].group)*t.parts+part]
	w0, w1 := part*t.b.Words/t.parts, (part+1)*t.b.Words/t.parts
	for t.waits(g) && g.taken.CompareAndSwap(false, true) {
		for t.waits(g) {
			at := g.bundle.Load()
			rowSet, now := t.rowSets[at].Load()-1, &t.bundles[at]
			for k, series := range t.series[now.lo:now.hi] {
				if t.all[series].Mapped > 0 {
					t.sink.AddSteps(int32(t.first)+series, t.b.Row(int(rowSet)*t.each+k), w0, w1)
				}
			}
			g.bundle.Store(now.next)
			switch {
			case t.left[rowSet].Add(-1) > 0: // other parts need the row set
			case int(at) == i:
				own = true
			default:
				t.free <- rowSet
			}
		}
		g.taken.Store(false)
	}
	return own
}

// waits reports whether the bundle waits whose turn it is.
func (t *turns) waits(g *turn) bool {
	i := g.bundle.Load()
	return i >= 0 && t.rowSets[i].Load() > 0
}

// inTurn has workers fill the series that are left, in order, and add each to its group, of groups
// which, when its turn has come.
func (l *Loop) inTurn(a GroupSink, groups []int32, b *Batch, workers int) error {
	size := int64(len(groups)) * int64(unsafe.Sizeof(dense.Counts{}))
	l.Query.Charge(size)
	defer l.Query.Charge(-size)
	all := make([]dense.Counts, len(groups))
	t := newTurns(a, groups, l.Next, workers, b, all)
	rowSets := make([]int32, workers)
	for k := range rowSets {
		rowSets[k] = <-t.free
	}
	failed := make(chan struct{}) // closed when a bundle will not be filled, so that none waits for it
	fail := sync.OnceFunc(func() { close(failed) })
	err := l.each(workers, len(t.bundles), func(k, i int) bool {
		done := false
		defer func() {
			if !done { // or it panicked
				fail()
			}
		}()
		bundle := t.series[t.bundles[i].lo:t.bundles[i].hi]
		clear(t.b.Present[int(rowSets[k])*t.each*t.b.Words:][:len(bundle)*t.b.Words])
		if !l.fill(k, len(bundle), func(n int) (int, dense.Row, *dense.Counts) {
			return t.first + int(bundle[n]), t.b.Row(int(rowSets[k])*t.each + n), &all[bundle[n]]
		}) {
			return false
		}
		if !t.filled(k, i, rowSets[k]) { // a goroutine without a bundle waits, and none waits for that
			select {
			case rowSets[k] = <-t.free:
			case <-failed:
				return false
			}
		}
		done = true
		return true
	})
	for k := 0; err == nil && l.Count != nil && k < len(all); k++ {
		err = l.Count(l.Next+k, all[k])
	}
	l.Next = l.N
	return err
}
