package cpuexec

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// input is what a sink is told of the series that it is about to consume.
type input struct {
	n      int
	labels func(i int) labels.Labels
	groups func() groups // of the sink's aggregation
}

// inputOf is the input of the aggregation node of n series with labels at.
func inputOf(node *plan.Aggregate, n int, at func(int) labels.Labels) input {
	return input{n: n, labels: at, groups: func() groups { return group(node, n, at) }}
}

// feed evaluates the input of the aggregation n and hands its series, in order
// and batch by batch, to the sink that open makes. Only where nothing else will
// do are they made rows first.
func (r *run) feed(n *plan.Aggregate, open func(in input) operator.Sink) error {
	bottom, above := underChain(n.Input)
	if w, ok := bottom.(*plan.Window); ok {
		return r.window(w, above, func(s *source) operator.Sink {
			return open(s.input(n))
		})
	}
	if combines(bottom) {
		return r.combined(bottom, above, func(size int, at func(int) labels.Labels) operator.Sink {
			return open(inputOf(n, size, at))
		})
	}
	if inner, ok := bottom.(*plan.Aggregate); ok && inner.Func.Adds() && above.relabelsOnly() && !r.mayRemember(inner) {
		a, err := r.accumulate(inner)
		if err != nil {
			return err
		}
		defer r.Free(a, nil)
		order := a.order()
		at, err := labelsAfter(r.Query, len(order), func(i int) labels.Labels { return a.groups.labels[order[i]] }, above)
		if err != nil {
			return err
		}
		return r.Feed(open(inputOf(n, len(order), at)), len(order), func(i int, out dense.Row) int {
			return a.fillRow(order[i], out)
		})
	}
	rows, err := r.node(n.Input)
	if err != nil {
		return err
	}
	defer r.Charge(-operator.RowsBytes(rows))
	at := func(i int) labels.Labels { return rows[i].Labels }
	return r.Feed(open(inputOf(n, len(rows), at)), len(rows), func(i int, out dense.Row) int {
		out.Put(&rows[i])
		return len(rows[i].Values)
	})
}

// noteFirst notes which series of a batch is the first with a value of its
// group; first has -1 for groups that have none yet.
func noteFirst(first, of []int32, b *operator.Batch) {
	for i := range b.N {
		if g := of[b.Lo+i]; b.Counts[i].Kept > 0 && first[g] < 0 {
			first[g] = int32(b.Lo + i)
		}
	}
}

// newFirst is the list that noteFirst fills in, for so many groups.
func newFirst(groups int) []int32 {
	first := make([]int32, groups)
	for g := range first {
		first[g] = -1
	}
	return first
}

// byFirst lists the groups that have a value in the order in which their first
// series came, which is that of Prometheus's engine.
func byFirst(first []int32) []int {
	order := make([]int, 0, len(first))
	for g, f := range first {
		if f >= 0 {
			order = append(order, g)
		}
	}
	slices.SortFunc(order, func(x, y int) int { return int(first[x] - first[y]) })
	return order
}
