package cpuexec

import "github.com/promwarp/promwarp/plan"

// once evaluates the input of n at the first step and repeats its values at all steps.
func (r *run) once(n *plan.Once) ([]plan.Row, error) {
	sub := r.on(n.Grid(r.job.Grid), n.Input)
	in, err := sub.node(n.Input)
	r.absorb(sub.m)
	if err != nil {
		return nil, err
	}
	if err := r.done(); err != nil {
		return nil, err // there may be more rows
	}
	steps := r.job.Grid.Steps
	for k := range steps {
		r.m.SamplesAtStep[k] += sub.m.SamplesAtStep[0]
	}
	r.m.NewSamplesAtStep[0] += sub.m.NewSamplesAtStep[0]
	points := len(in) * steps
	if err := r.checkHeld(n, r.held+points, r.held+points); err != nil {
		return nil, err
	}
	r.take(int64(len(in))*rowBytes(steps) - rowsBytes(in))
	if err := r.done(); err != nil {
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
