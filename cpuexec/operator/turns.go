package operator

import (
	"slices"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// turns has series added to their groups in order, by the workers that fill them. A worker takes a
// few series of a group at once, a run, and whoever has filled a run adds it, and those behind it
// that wait, where its turn has come: what is added to is in another core's cache most often, and
// is brought from there once for all of a run. A worker waits for another one only where no room
// is free.
//
//	group 0:  3 7 8 9 added | 12 15 16 18 being filled | 21 22 30 31 wait, in room 4 | 40 being filled
//
// A group's steps are in parts, each with a turn of its own, so that several workers add to one
// group at once. At each step series are added in order.
//
// Invariant: a room, rows for a run, is one worker's, or holds a run that some part waits for, or
// is free.
type turns struct {
	sink  GroupSink
	b     *Batch
	first int            // number of the first series
	runs  []run          // in the order of their first series
	each  int            // the most series of a run
	of    []int32        // the series of all runs, counted from first
	rooms []atomic.Int32 // of each run: the room in which it waits, from 1; 0 for none
	left  []atomic.Int32 // of each room: parts that its run is still to be added to
	all   []dense.Counts // of each series
	parts int            // of the steps of a group
	turn  []turn         // parts a group
	free  *freeRows      // rooms
}

// run is some series of a group, one after the other.
type run struct {
	group, lo, hi int32 // series of[lo:hi]
	next          int32 // the group's next run, -1 for none
}

// turn is whose turn it is in a part of a group.
type turn struct {
	run   atomic.Int32 // -1 for none
	taken atomic.Bool  // somebody adds
	_     [56]byte     // to the next cache line
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

// runLength is how many of so many series a run has, for which a batch has so many rows: as many
// as bring little with them from another core, fit its cache, and leave the workers rooms to go on
// in.
func runLength(workers, series, rows int) int {
	return max(1, min(neighbours(workers, series), rows/(4*workers)))
}

// newTurns returns the turns of the series from first on; groups has their groups. Each worker has
// one of the first rooms.
func newTurns(a GroupSink, groups []int32, first, workers int, b *Batch, all []dense.Counts) *turns {
	var sizes []int32
	for _, g := range groups {
		for int(g) >= len(sizes) {
			sizes = append(sizes, 0)
		}
		sizes[g]++
	}
	n, rows := len(groups), len(b.Counts)
	each := runLength(workers, n, rows)
	t := &turns{
		sink: a, b: b, first: first, each: each, of: make([]int32, n), left: make([]atomic.Int32, rows/each), all: all,
		parts: stepParts(workers, b.Words, int(slices.Max(sizes)), n), free: newFreeRows(workers, rows/each, workers),
	}
	t.turn = make([]turn, len(sizes)*t.parts)
	t.divide(groups, sizes)
	t.rooms = make([]atomic.Int32, len(t.runs))
	return t
}

// divide divides the series into runs, and gives the first of each group its turn.
func (t *turns) divide(groups, sizes []int32) {
	type open struct{ run, end int32 } // run is -1 where there is none yet
	at := make([]open, len(sizes))
	end := int32(0)
	for g, size := range sizes {
		at[g] = open{-1, end}
		end += size
	}
	for i := range t.turn {
		t.turn[i].run.Store(-1)
	}
	t.runs = make([]run, 0, len(groups)/t.each+len(sizes))
	for i, g := range groups {
		o := &at[g]
		if o.run < 0 || t.runs[o.run].hi-t.runs[o.run].lo == int32(t.each) {
			now := int32(len(t.runs))
			t.runs = append(t.runs, run{group: g, lo: o.end, hi: o.end, next: -1})
			if o.run >= 0 {
				t.runs[o.run].next = now
			} else {
				for k := range t.parts {
					t.turn[int(g)*t.parts+k].run.Store(now)
				}
			}
			o.run = now
		}
		t.of[o.end] = int32(i)
		o.end++
		t.runs[o.run].hi = o.end
	}
}

// row is the row of a room's k-th series.
func (t *turns) row(room int32, k int) dense.Row { return t.b.Row(int(room)*t.each + k) }

// filled has a run added, which is in a room, now or when its turn has come. Each worker begins
// with another part. It reports whether the room is still the caller's.
func (t *turns) filled(worker, i int, room int32) (own bool) {
	t.left[room].Store(int32(t.parts))
	t.rooms[i].Store(room + 1)
	for k := range t.parts {
		if t.add((worker+k)%t.parts, i) {
			own = true
		}
	}
	return own
}

// add adds what waits for its turn in a part of run i's group. It reports whether the room of run
// i is free with that, and so the caller's.
func (t *turns) add(part, i int) (own bool) {
	g := &t.turn[int(t.runs[i].group)*t.parts+part]
	w0, w1 := part*t.b.Words/t.parts, (part+1)*t.b.Words/t.parts
	for t.waits(g) && g.taken.CompareAndSwap(false, true) {
		for t.waits(g) {
			at := g.run.Load()
			room, r := t.rooms[at].Load()-1, &t.runs[at]
			for k, series := range t.of[r.lo:r.hi] {
				if t.all[series].Mapped > 0 {
					t.sink.AddSteps(int32(t.first)+series, t.row(room, k), w0, w1)
				}
			}
			g.run.Store(r.next)
			switch {
			case t.left[room].Add(-1) > 0: // other parts need the room
			case int(at) == i:
				own = true
			default:
				t.free.put(room)
			}
		}
		g.taken.Store(false)
	}
	return own
}

// waits reports whether the run waits whose turn it is.
func (t *turns) waits(g *turn) bool {
	i := g.run.Load()
	return i >= 0 && t.rooms[i].Load() > 0
}

// inTurn has workers fill the series, in order, and add each to its group, of groups which, when
// its turn has come.
func (l *Loop) inTurn(a GroupSink, groups []int32, b *Batch, workers int) error {
	return l.alone(func(all []dense.Counts) error {
		t := newTurns(a, groups, l.Next, workers, b, all)
		rooms := make([]int32, workers)
		for k := range rooms {
			rooms[k] = int32(k)
		}
		return l.each(workers, len(t.runs), func(k, i int) bool {
			done := false
			defer func() {
				if !done { // or it panicked
					t.free.giveUp()
				}
			}()
			for n, series := range t.of[t.runs[i].lo:t.runs[i].hi] {
				out := t.row(rooms[k], n)
				clear(out.Present)
				if !l.fill(k, t.first+int(series), out, &all[series]) {
					return false
				}
			}
			if !t.filled(k, i, rooms[k]) { // who has no run waits, and nobody waits for whom
				rooms[k] = t.free.take(k)
			}
			done = rooms[k] >= 0
			return done
		})
	})
}
