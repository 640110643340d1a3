package cpuexec

import (
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

const reasonFactors = "a smoothing or trend factor is outside 0 to 1 at some step, which is for Prometheus's engine to report"

// noteQuantiles says what Prometheus's engine says of the quantiles that workers have
// noted and that are none.
func (r *run) noteQuantiles(scratch []*worker, fn *window.Call, pos posrange.PositionRange) {
	for _, s := range scratch {
		s.InvalidQuantiles(fn, func(q float64) { r.Note(annotations.NewInvalidQuantileWarning(q, pos)) })
	}
}

// holdParams evaluates the parameters of a window function that n applies. Their samples are held
// until free is called, also those of constants.
func (r *run) holdParams(n plan.Node, f *plan.WindowFunc, params []plan.Node) (v window.Varying, free func(), err error) {
	held := f.Param.Count() * r.job.Grid.Steps
	free = func() { r.Held -= held }
	if len(params) == 0 {
		r.Held += held
		return v, free, nil
	}
	held = 0
	for i, p := range params {
		rows, err := r.node(p)
		if err != nil {
			return v, free, err
		}
		v[i] = rows[0].Values
		held += r.job.Grid.Steps
		r.Held += r.job.Grid.Steps
	}
	if check := window.Of(f).Check; check != nil {
		for k, factor := range v[0] {
			if check(factor, v[1][k]) != nil {
				return v, free, &plan.Declined{At: n, Reason: reasonFactors}
			}
		}
	}
	return v, free, nil
}
