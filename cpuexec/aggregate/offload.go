package aggregate

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
)

// Offloadable is a sink whose results an accelerator may compute.
type Offloadable interface {
	operator.Sink
	operator.Bounded
	Layout() Layout
	Offload(offloads bool) // says that an accelerator computes the results, or not after all
	// Offloaded puts them in; has says which series have a value.
	Offloaded(x *offload.Results, has []bool)
}

var (
	_ Offloadable = (*Adder)(nil)
	_ Offloadable = (*Quantiler)(nil)
	_ Offloadable = (*ranker)(nil)

	_ operator.Bounded   = (*limiter)(nil)
	_ operator.GroupSink = (*Adder)(nil)
)

// Layout is what an accelerator has to know of a sink.
type Layout struct {
	Node    *plan.Aggregate
	GroupOf []int32 // the group of each series
	Groups  int
	Rooms   []int // of topk and bottomk, how many series each group keeps at a step
}

// Offload implements Offloadable.
func (a *Adder) Offload(offloads bool) { a.offloads = offloads }

// Offloaded implements Offloadable.
func (a *Adder) Offloaded(x *offload.Results, has []bool) {
	a.noteSeries(has)
	a.offloaded = x.Values
}

func (a *ranker) Layout() Layout {
	l := a.members.Layout()
	l.Rooms = make([]int, len(a.size))
	for g, size := range a.size {
		l.Rooms[g] = atMost(a.k, size)
	}
	return l
}

// Offload lays the heaps out. An accelerator computes one for every group.
func (a *ranker) Offload(offloads bool) { a.layOut(offloads || a.instant() || a.ks != nil) }

func (a *ranker) Offloaded(x *offload.Results, has []bool) {
	a.noteSeries(has)
	a.all, a.filled = keyed{keys: x.Values, series: x.Series}, x.Filled
}

// spread writes values, of which some are dense.Absent, to a dense row and returns how many there are.
func spread(values []float64, out dense.Row) (points int) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	for k, v := range values {
		if math.Float64bits(v) != dense.Absent {
			cur.Set(k, v)
			points++
		}
	}
	return points
}
