package cpuexec

import (
	"math"
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// offloadable is a sink whose results an accelerator may compute.
type offloadable interface {
	operator.Sink
	operator.Bounded
	aggregation() aggregation
	offload(offloads bool)            // says that an accelerator computes the results, or not after all
	offloaded(x computed, has []bool) // puts them in; has says which series have a value
}

// aggregation is what an accelerator has to know of a sink.
type aggregation struct {
	node    *plan.Aggregate
	groupOf []int32 // the group of each series
	groups  int
	rooms   []int // of topk and bottomk, how many series each group keeps at a step
}

// computed is what an accelerator computed: see Results.
type computed struct {
	values         []float64
	series, filled []int32
}

func (a *aggregator) aggregation() aggregation {
	return aggregation{node: a.node, groupOf: a.groups.of, groups: len(a.first)}
}

func (a *aggregator) offload(offloads bool) { a.offloads = offloads }

func (a *aggregator) offloaded(x computed, has []bool) {
	noteSeries(a.first, a.groups.of, has)
	a.acc = &accumulator{op: a.node.Func, steps: a.steps, offloaded: x.values}
}

func (a *ranker) aggregation() aggregation {
	l := aggregation{node: a.node, groupOf: a.of, groups: len(a.size), rooms: make([]int, len(a.size))}
	for g, size := range a.size {
		l.rooms[g] = atMost(a.k, size)
	}
	return l
}

// offload lays the heaps out. An accelerator computes one for every group.
func (a *ranker) offload(offloads bool) { a.layOut(offloads || a.instant() || a.ks != nil) }

func (a *ranker) offloaded(x computed, has []bool) {
	noteSeries(a.first, a.of, has)
	a.all, a.filled = keyed{keys: x.values, series: x.series}, x.filled
}

// noteSeries notes the first series of each group that has a value.
func noteSeries(first, of []int32, has []bool) {
	for i, left := 0, len(first); i < len(has) && left > 0; i++ {
		if g := of[i]; has[i] && first[g] < 0 {
			first[g] = int32(i)
			left--
		}
	}
}

// offloadedBytes is the memory of results that an accelerator computed, and of the rows
// made of them.
func offloadedBytes(groups, steps int) int64 {
	return int64(groups) * (int64(steps)*2*int64(unsafe.Sizeof(float64(0))) + operator.RowBytes(0))
}

// sparse makes a row of values of which some are dense.Absent. Where none is, they
// are the row's.
func sparse(values []float64) (row plan.Row) {
	if len(values) > 0 && !slices.ContainsFunc(values, func(v float64) bool { return math.Float64bits(v) == dense.Absent }) {
		row.Values = values[:len(values):len(values)]
		row.Runs = []plan.Run{{Len: int32(len(values))}}
		return row
	}
	for k, v := range values {
		if math.Float64bits(v) == dense.Absent {
			continue
		}
		row.Runs = dense.AppendRun(row.Runs, plan.Run{First: int32(k), Len: 1})
		row.Values = append(row.Values, v)
	}
	return row
}

// spread writes such values to a dense row and returns how many there are.
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
