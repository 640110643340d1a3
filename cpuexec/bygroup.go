package cpuexec

import (
	"sync/atomic"
	"unsafe"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
)

// This file evaluates a window for an aggregation group by group: one goroutine
// evaluates all series of a group, in their order, and adds each to the group while its
// values are in the core's cache. No goroutine waits for another before the end.

// groupSink is a sink that series may be added to group by group.
type groupSink interface {
	operator.Sink
	// Shared returns the series from the given one on by group; nil if so many workers are
	// better off with batches.
	Shared(from, workers int) [][]int32
	// AddSeries adds series i, to whose group nobody else adds meanwhile, with its values.
	AddSeries(i int32, in dense.Row)
}

var _ groupSink = (*aggregate.Adder)(nil)

// byGroup evaluates the series that were not consumed yet and adds them to a. eval is
// called by worker k with a series.
func (e *windowing) byGroup(a groupSink, members [][]int32, eval func(k, i int, out dense.Row, c *dense.Counts) bool) error {
	size := int64(len(e.hasPoints)-e.next) * int64(unsafe.Sizeof(dense.Counts{}))
	e.r.Charge(size)
	defer e.r.Charge(-size)
	all := make([]dense.Counts, len(e.hasPoints)-e.next)
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
			if c.Mapped > 0 {
				a.AddSeries(i, out)
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
