package cpuexec

import (
	"cmp"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
)

// This file evaluates a window for an aggregation group by group: one goroutine
// evaluates all series of a group, in their order, and adds each to the group while its
// values are in the core's cache. No goroutine waits for another before the end.

// unequal is how much more than its share, in percent, a core may get for its groups
// to be left to it.
const unequal = 25

// shared returns the series from the given one on by group, the groups with the most
// series first; and nil if so many workers, each of which takes the next group when it
// is done with one, would not be done at about the same time.
func (g *groups) shared(from, workers int) [][]int32 {
	sizes := make([]int, len(g.labels))
	for _, k := range g.of[from:] {
		sizes[k]++
	}
	members, room := make([][]int32, len(sizes)), make([]int32, len(g.of)-from)
	for k, n := range sizes {
		members[k], room = room[:0:n], room[n:]
	}
	for i, k := range g.of[from:] {
		members[k] = append(members[k], int32(from+i))
	}
	slices.SortStableFunc(members, func(x, y []int32) int { return cmp.Compare(len(y), len(x)) })
	loads := make([]int, workers)
	for _, m := range members {
		least := 0
		for k := range loads {
			if loads[k] < loads[least] {
				least = k
			}
		}
		loads[least] += len(m)
	}
	if share := (len(g.of) - from + workers - 1) / workers; slices.Max(loads) > share+share*unequal/100 {
		return nil
	}
	return members
}

// byGroup evaluates the series that were not taken yet and adds them to a. eval is
// called by worker k with a series.
func (e *windowing) byGroup(a *aggregator, members [][]int32, eval func(k, i int, out dense.Row, c *dense.Counts) bool) error {
	size := int64(len(a.groups.of)-e.next) * int64(unsafe.Sizeof(dense.Counts{}))
	e.r.Charge(size)
	defer e.r.Charge(-size)
	all := make([]dense.Counts, len(a.groups.of)-e.next)
	var points atomic.Int64
	parallel.While(e.workers, len(members), func(k, m int) bool {
		out := e.b.Row(k)
		for _, i := range members[m] {
			clear(out.Present)
			c := &all[int(i)-e.next]
			if !eval(k, int(i), out, c) {
				return false
			}
			if n := points.Add(int64(c.Points)); e.limit.Max > 0 && n > int64(e.limit.Max) {
				return false // as the limit says below
			}
			if c.Kept > 0 {
				a.add(i, out)
			}
		}
		return true
	})
	if err := e.failed(); err != nil {
		return err
	}
	for k := range all {
		e.hasPoints[e.next+k] = all[k].Points > 0
		if !e.count(all[k]) {
			return promql.ErrTooManySamples("query execution")
		}
	}
	e.next += len(all)
	return nil
}

// add adds series i, whose group nobody else adds to meanwhile, with its values.
func (a *aggregator) add(i int32, in dense.Row) {
	g := int(a.groups.of[i])
	if a.first[g] < 0 {
		a.first[g] = i
	}
	a.acc.reserve(g)
	if a.firsts != nil {
		a.noteFirsts(g, i, in.Present, 0, a.acc.words)
	}
	a.acc.add(g, in, 0, a.acc.words)
}
