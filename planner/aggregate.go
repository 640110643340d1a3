package planner

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/plan"
)

// aggregate compiles an aggregation operator.
func (w *walker) aggregate(e *parser.AggregateExpr, sc scope) (plan.Node, string) {
	f := aggregate.Named(e.Op.String())
	if f == nil {
		return nil, fmt.Sprintf("the aggregation operator %s is not on an executor yet", e.Op)
	}
	a := &plan.Aggregate{Func: f, Without: e.Without, Grouping: slices.Clone(e.Grouping), Pos: e.PosRange, Text: e}
	if name, ok := e.Param.(*parser.StringLiteral); ok && !model.UTF8Validation.IsValidLabelName(name.Val) {
		return &plan.Failure{Err: fmt.Errorf("invalid label name %s", name), Pos: e.PosRange, Text: e}, ""
	}
	if reason := w.parameter(a, e, sc); reason != "" {
		return nil, reason
	}
	slices.Sort(a.Grouping)
	sc.selectorRefused = ""
	sc.labels = sc.labels || e.Op == parser.COUNT_VALUES
	if !a.Func.Keeps && !groupsByName(a) {
		// Grouping without some labels removes names, but neither types nor units.
		sc.leavesTypes = a.Without && (!sc.anyName || sc.leavesTypes)
		sc.anyName = true
	}
	var reason string
	if a.Input, reason = w.compile(e.Expr, sc); a.Input == nil {
		return nil, stays(reason)
	}
	return a, ""
}

// groupsByName reports whether a groups by what belongs to a name.
func groupsByName(a *plan.Aggregate) bool {
	return !a.Without && slices.ContainsFunc(a.Grouping, schema.IsMetadataLabel)
}

// parameter puts the operator's parameter, if it has one, into a, or says why
// that cannot be.
func (w *walker) parameter(a *plan.Aggregate, e *parser.AggregateExpr, sc scope) string {
	if e.Op == parser.COUNT_VALUES {
		name, ok := e.Param.(*parser.StringLiteral)
		if !ok {
			return "count_values with a label name in parentheses is not on an executor yet"
		}
		a.Label = name.Val
		if !a.Without {
			a.Grouping = append(a.Grouping, a.Label)
		}
		return ""
	}
	if !a.Func.Param {
		return ""
	}
	var ok bool
	a.ParamPos = w.pos(e.Param)
	if a.Param, ok = w.constant(e.Param); ok {
		return ""
	}
	var reason string
	if a.ParamNode, reason = w.scalar(e.Param, sc); a.ParamNode == nil {
		return stays(reason)
	}
	return ""
}
