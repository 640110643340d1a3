package cpuexec

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// feed evaluates the input of the aggregation n and hands its series, in order
// and batch by batch, to the sink that open makes. Only where nothing else will
// do are they made rows first.
func (r *run) feed(n *plan.Aggregate, open func(in aggregate.Input) operator.Sink) error {
	bottom, above := underChain(n.Input)
	if w, ok := bottom.(*plan.Window); ok {
		return r.window(w, above, func(s *source) operator.Sink {
			return open(s.input(n))
		})
	}
	if combines(bottom) {
		return r.combined(bottom, above, func(size int, at func(int) labels.Labels) operator.Sink {
			return open(aggregate.InputOf(n, size, at))
		})
	}
	if inner, ok := bottom.(*plan.Aggregate); ok && inner.Func.Adds() && above.relabelsOnly() && !r.mayRemember(inner) {
		a, err := r.accumulate(inner)
		if err != nil {
			return err
		}
		defer r.Free(a, nil)
		order := a.Order()
		at, err := labelsAfter(r.Query, len(order), func(i int) labels.Labels { return a.Groups.Labels[order[i]] }, above)
		if err != nil {
			return err
		}
		return r.Feed(open(aggregate.InputOf(n, len(order), at)), len(order), func(i int, out dense.Row) int {
			return a.FillRow(order[i], out)
		})
	}
	rows, err := r.node(n.Input)
	if err != nil {
		return err
	}
	defer r.Charge(-operator.RowsBytes(rows))
	at := func(i int) labels.Labels { return rows[i].Labels }
	return r.Feed(open(aggregate.InputOf(n, len(rows), at)), len(rows), func(i int, out dense.Row) int {
		out.Put(&rows[i])
		return len(rows[i].Values)
	})
}
