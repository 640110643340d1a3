package cpuexec

import (
	"math"
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/plan"
)

// This file is what sinks make of results that were computed elsewhere.

func (a *aggregator) aggregation() (*plan.Aggregate, []int32, int) {
	return a.node, a.groups.of, len(a.first)
}

func (a *aggregator) give(given bool) { a.elsewhere = given }

func (a *aggregator) given(x *Results, has []bool) {
	noteSeries(a.first, a.groups.of, has)
	a.acc = &accumulator{op: a.node.Func, steps: a.steps, given: x.Values}
}

// give lays the heaps out: where results are given, every group has some.
func (a *ranker) give(given bool) { a.layOut(given || a.instant() || a.ks != nil) }

func (a *ranker) aggregation() (*plan.Aggregate, []int32, int) { return a.node, a.of, len(a.size) }

// given takes heaps of which the first elements of all steps come first, and so on.
func (a *ranker) given(x *Results, has []bool) {
	noteSeries(a.first, a.of, has)
	a.all = keyed{keys: make([]float64, a.cells), series: make([]int32, a.cells)}
	a.filled = make([]int32, len(a.room)*a.steps)
	parallel.For(len(a.room), func(heap int) {
		base, room := a.base[heap], a.room[heap]
		for k := range a.steps {
			n := int(x.Filled[heap*a.steps+k])
			a.filled[heap*a.steps+k] = int32(n)
			for i := range n {
				from, to := base+i*a.steps+k, base+k*room+i
				a.all.keys[to], a.all.series[to] = x.Values[from], int32(x.Series[from])
			}
		}
	})
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

// givenBytes is the memory of results that were computed elsewhere, and of the
// rows made of them.
func givenBytes(groups, steps int) int64 {
	return int64(groups) * (int64(steps)*2*int64(unsafe.Sizeof(float64(0))) + operator.RowBytes(0))
}

// sparse makes a row of values of which some are kernels.Absent. Where none is, they
// are the row's.
func sparse(values []float64) (row plan.Row) {
	if len(values) > 0 && !slices.ContainsFunc(values, func(v float64) bool { return math.Float64bits(v) == kernels.Absent }) {
		row.Values = values[:len(values):len(values)]
		row.Runs = []plan.Run{{Len: int32(len(values))}}
		return row
	}
	for k, v := range values {
		if math.Float64bits(v) == kernels.Absent {
			continue
		}
		if n := len(row.Runs); n > 0 && row.Runs[n-1].First+row.Runs[n-1].Len == int32(k) {
			row.Runs[n-1].Len++
		} else {
			row.Runs = append(row.Runs, plan.Run{First: int32(k), Len: 1})
		}
		row.Values = append(row.Values, v)
	}
	return row
}

// spread writes such values to a dense row and returns how many there are.
func spread(values []float64, out dense.Row) (points int) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	for k, v := range values {
		if math.Float64bits(v) != kernels.Absent {
			cur.Set(k, v)
			points++
		}
	}
	return points
}
