package cpuexec

import (
	"fmt"
	"math"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// parameter is the parameter of an aggregation.
type parameter struct {
	constant float64
	values   []float64 // by step; nil for a constant
	// low and high are the least and the largest value and nan says that one is NaN, all
	// as Prometheus's engine finds them.
	low, high float64
	nan       bool
}

// at is the parameter at a step.
func (p *parameter) at(k int) float64 {
	if p.values != nil {
		return p.values[k]
	}
	return p.constant
}

func constantParameter(v float64) parameter {
	return parameter{constant: v, low: v, high: v, nan: math.IsNaN(v)}
}

// parameter evaluates the parameter of n.
func (r *run) parameter(n *plan.Aggregate) (parameter, error) {
	if n.ParamNode == nil {
		return constantParameter(n.Param), nil
	}
	rows, err := r.node(n.ParamNode)
	if err != nil {
		return parameter{}, err
	}
	p := parameter{values: rows[0].Values, low: math.MaxFloat64, high: -math.MaxFloat64}
	for _, v := range p.values {
		p.low, p.high = math.Min(p.low, v), math.Max(p.high, v)
		p.nan = p.nan || math.IsNaN(v)
	}
	return p, nil
}

// mostSeries is the number of series from which on Prometheus's engine refuses to keep
// so many: a little less than the largest int64, which is no float.
const mostSeries = 1<<63 - 1<<10

// selects says what Prometheus's engine does about the parameter of an operator that
// keeps some of its input's series, before it looks at these: whether it keeps none
// at any step, or fails.
func (p *parameter) selects(q *operator.Query, n *plan.Aggregate) (none bool, err error) {
	ratio := n.Func.Name == "limit_ratio"
	switch {
	case ratio && p.high == 0 && p.low == 0, !ratio && p.high < 1:
		return true, nil
	case ratio && p.nan:
		return false, refused("Ratio value is NaN")
	case p.nan:
		return false, refused("Parameter value is NaN")
	case !ratio && p.low <= math.MinInt64:
		return false, refused("Scalar value %v underflows int64", p.low)
	case !ratio && p.high >= mostSeries:
		return false, refused("Scalar value %v overflows int64", p.high)
	}
	if ratio && p.high > 1 {
		q.Note(annotations.NewInvalidRatioWarning(p.high, 1, n.ParamPos))
	}
	if ratio && p.low < -1 {
		q.Note(annotations.NewInvalidRatioWarning(p.low, -1, n.ParamPos))
	}
	return false, nil
}

// refused is an error in Prometheus's words, some of which begin with a capital.
func refused(format string, args ...any) error { return fmt.Errorf(format, args...) }

// warnQuantiles says what Prometheus's engine says of quantiles that are none.
func (p *parameter) warnQuantiles(q *operator.Query, n *plan.Aggregate) {
	warn := func(v float64) { q.Note(annotations.NewInvalidQuantileWarning(v, n.ParamPos)) }
	if p.nan {
		warn(math.NaN())
	}
	if p.high > 1 {
		warn(p.high)
	}
	if p.low < 0 {
		warn(p.low)
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
	if f.Param == plan.TwoParamsAfter {
		for k, factor := range v[0] {
			if window.CheckFactors(factor, v[1][k]) != nil {
				return v, free, &plan.Declined{At: n, Reason: reasonFactors}
			}
		}
	}
	return v, free, nil
}

const reasonFactors = "a smoothing or trend factor is outside 0 to 1 at some step, which is for Prometheus's engine to report"

// noteQuantiles says what Prometheus's engine says of the quantiles that workers have
// noted and that are none.
func (r *run) noteQuantiles(scratch []*worker, fn *window.Call, pos posrange.PositionRange) {
	for _, s := range scratch {
		s.InvalidQuantiles(fn, func(q float64) { r.Note(annotations.NewInvalidQuantileWarning(q, pos)) })
	}
}
