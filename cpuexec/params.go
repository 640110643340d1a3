package cpuexec

import (
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

const reasonFactors = "a smoothing or trend factor is outside 0 to 1 at some step, which is for Prometheus's engine to report"

// noteQuantiles says what Prometheus's engine says of the quantiles that workers have
// noted and that are none.
func (r *evaluation) noteQuantiles(scratch []*worker, fn *window.Call, pos posrange.PositionRange) {
	for _, s := range scratch {
		s.InvalidQuantiles(fn, func(q float64) { r.Note(annotations.NewInvalidQuantileWarning(q, pos)) })
	}
}

// holdParams evaluates the parameters. Their samples are held until what is above the function
// has been evaluated, also those of constants.
func (e *windowing) holdParams() error {
	f, steps := e.call.Func, e.r.job.Grid.Steps
	if len(e.params) == 0 {
		e.r.Held += f.Param.Count() * steps
		return nil
	}
	for i, p := range e.params {
		rows, err := operator.Rows(p)
		if err != nil {
			return err
		}
		e.call.Varying[i] = rows[0].Values
		e.r.Held += steps
	}
	if check := e.call.Func.Check; check != nil {
		for k, factor := range e.call.Varying[0] {
			if check(factor, e.call.Varying[1][k]) != nil {
				return &plan.Declined{At: e.node, Reason: reasonFactors}
			}
		}
	}
	return nil
}
