package cpuexec

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

// scalar evaluates a node that has one value at every step.
func (r *run) scalar(n plan.Node) ([]plan.Row, error) {
	in, samples, err := r.inputs(n)
	if err != nil {
		return nil, err
	}
	steps := r.job.Grid.Steps
	out := make([]float64, steps)
	present := 0 // series of all inputs
	for _, rows := range in {
		present += len(rows)
	}
	if err := vector.Scalar(n, in, r.job.Grid, out); err != nil {
		return nil, err
	}
	least := r.Held + samples + steps
	if err := r.CheckHeld(n, least, least+present); err != nil {
		return nil, err
	}
	return []plan.Row{{Labels: labels.EmptyLabels(), Values: out, Runs: []plan.Run{{Len: int32(steps)}}}}, nil
}
