package cpuexec

import (
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

// absent evaluates absent and absent_over_time: a row with 1 at the steps at
// which no series of the input has a value, or no row.
func (r *run) absent(n *plan.Absent) ([]plan.Row, error) {
	p := vector.NewAnyValue(r.job.Grid.Steps)
	bottom, above := vector.Under(n.Input)
	if w, ok := bottom.(*plan.Window); ok {
		if err := r.window(w, above, func(*source) operator.Sink { return p }); err != nil {
			return nil, err
		}
	} else {
		in, err := r.node(n.Input)
		if err != nil {
			return nil, err
		}
		p.Add(in)
		r.Charge(-operator.RowsBytes(in))
	}
	return p.Absence(r.Query, n)
}
