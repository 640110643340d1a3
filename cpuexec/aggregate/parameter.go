package aggregate

import (
	"fmt"
	"math"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// Parameter is the parameter of an aggregation.
type Parameter struct {
	constant float64
	values   []float64 // by step; nil for a constant
	// low and high are the least and the largest value and nan says that one is NaN, all
	// as Prometheus's engine finds them.
	low, high float64
	nan       bool
}

// at is the parameter at a step.
func (p *Parameter) at(k int) float64 {
	if p.values != nil {
		return p.values[k]
	}
	return p.constant
}

// constant is a parameter that is the same at all steps.
func constant(v float64) Parameter {
	return Parameter{constant: v, low: v, high: v, nan: math.IsNaN(v)}
}

// varying is a parameter that has a value for each step.
func varying(values []float64) Parameter {
	p := Parameter{values: values, low: math.MaxFloat64, high: -math.MaxFloat64}
	for _, v := range values {
		p.low, p.high = math.Min(p.low, v), math.Max(p.high, v)
		p.nan = p.nan || math.IsNaN(v)
	}
	return p
}

// mostSeries is the number of series from which on Prometheus's engine refuses to keep
// so many: a little less than the largest int64, which is no float.
const mostSeries = 1<<63 - 1<<10

// Check says what Prometheus's engine does about the parameter of an operator that
// keeps some of its input's series, before it looks at these: whether it keeps none
// at any step, or fails. note gets what it warns of once it has evaluated the input.
func (p *Parameter) Check(n *plan.Aggregate, note func(error)) (none bool, err error) {
	return Of(n.Func).check(p, n, note)
}

// checkCount is Check for a number of series.
func (p *Parameter) checkCount(*plan.Aggregate, func(error)) (none bool, err error) {
	switch {
	case p.high < 1:
		return true, nil
	case p.nan:
		return false, refused("Parameter value is NaN")
	case p.low <= math.MinInt64:
		return false, refused("Scalar value %v underflows int64", p.low)
	case p.high >= mostSeries:
		return false, refused("Scalar value %v overflows int64", p.high)
	}
	return false, nil
}

// checkRatio is Check for a share of the series.
func (p *Parameter) checkRatio(n *plan.Aggregate, note func(error)) (none bool, err error) {
	switch {
	case p.high == 0 && p.low == 0:
		return true, nil
	case p.nan:
		return false, refused("Ratio value is NaN")
	}
	if p.high > 1 {
		note(annotations.NewInvalidRatioWarning(p.high, 1, n.ParamPos))
	}
	if p.low < -1 {
		note(annotations.NewInvalidRatioWarning(p.low, -1, n.ParamPos))
	}
	return false, nil
}

// refused is an error in Prometheus's words, some of which begin with a capital.
func refused(format string, args ...any) error { return fmt.Errorf(format, args...) }

// WarnQuantiles says what Prometheus's engine says of quantiles that are none.
func (p *Parameter) WarnQuantiles(q *operator.Query, n *plan.Aggregate) {
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
