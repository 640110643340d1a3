package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// aggregate compiles an aggregation operator.
func (w *walker) aggregate(e *parser.AggregateExpr, sc scope) (plan.Node, string) {
	f, ok := plan.Aggregates[e.Op.String()]
	if !ok {
		return nil, fmt.Sprintf("the aggregation operator %s is not on an executor yet", e.Op)
	}
	a := &plan.Aggregate{Func: f, Without: e.Without, Grouping: slices.Clone(e.Grouping), Pos: e.PosRange, Text: e.String()}
	if reason := parameter(a, e); reason != "" {
		return nil, reason
	}
	slices.Sort(a.Grouping)
	sc.selectorRefused = ""
	sc.labels = sc.labels || e.Op == parser.COUNT_VALUES
	var reason string
	if a.Input, reason = w.compile(e.Expr, sc); a.Input == nil {
		return nil, inputStays + reason
	}
	return a, ""
}

// parameter puts the operator's parameter, if it has one, into a, or says why
// that cannot be.
func parameter(a *plan.Aggregate, e *parser.AggregateExpr) string {
	if e.Op == parser.COUNT_VALUES {
		name, ok := e.Param.(*parser.StringLiteral)
		if !ok {
			return "count_values with a label name in parentheses is not on an executor yet"
		}
		a.Label = name.Val
		if !model.UTF8Validation.IsValidLabelName(a.Label) {
			return "the name of its label is not valid, which is for Prometheus's engine to say"
		}
		if !a.Without {
			a.Grouping = append(a.Grouping, a.Label)
		}
		return ""
	}
	if !a.Func.Param {
		return ""
	}
	var ok bool
	if a.Param, ok = constant(e.Param); !ok {
		return fmt.Sprintf("%s with a parameter that is not a constant is not on an executor yet", e.Op)
	}
	switch e.Op {
	case parser.QUANTILE:
		if !(a.Param >= 0 && a.Param <= 1) {
			return reasonQuantile
		}
	case parser.LIMIT_RATIO:
		if !(a.Param >= -1 && a.Param <= 1) {
			return "a ratio outside -1 to 1 is evaluated, with its warning, by Prometheus's engine"
		}
	default:
		if math.IsNaN(a.Param) || a.Param >= largestInt {
			return "a number of series that is not an integer of 64 bits is an error, which is for Prometheus's engine to raise"
		}
	}
	return ""
}

// largestInt is the largest sample value that an int64 can hold, where
// Prometheus's limit is.
const largestInt = 1<<63 - 1<<10
