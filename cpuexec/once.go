package cpuexec

import (
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// once evaluates the input of n at the first step and repeats its values at all steps.
func (r *evaluation) once(n *plan.Once) *operator.Finished {
	sub := r.on(n.Grid(r.job.Grid), n.Input)
	input := sub.build(n.Input)
	return r.finished(n, func() ([]plan.Row, error) {
		in, err := sub.rows(r, input)
		if err != nil {
			return nil, err
		}
		return r.repeated(n, in, sub.Matrix)
	})
}

// repeated are the values of rows, which have one each, at all steps. m is what they took.
func (r *evaluation) repeated(n *plan.Once, in []plan.Row, m *plan.Matrix) ([]plan.Row, error) {
	steps := r.job.Grid.Steps
	for k := range steps {
		r.Matrix.SamplesAtStep[k] += m.SamplesAtStep[0]
	}
	r.Matrix.NewSamplesAtStep[0] += m.NewSamplesAtStep[0]
	points := len(in) * steps
	if err := r.CheckHeld(n, r.Held+points, r.Held+points); err != nil {
		return nil, err
	}
	r.Charge(int64(len(in))*operator.RowBytes(steps) - operator.RowsBytes(in))
	if err := r.Done(); err != nil {
		return nil, err
	}
	values := make([]float64, points)
	runs := []plan.Run{{Len: int32(steps)}}
	out := make([]plan.Row, len(in))
	for i := range in {
		row := values[i*steps : (i+1)*steps : (i+1)*steps]
		for k := range row {
			row[k] = in[i].Values[0]
		}
		out[i] = plan.Row{Labels: in[i].Labels, Values: row, Runs: runs}
	}
	return out, nil
}
