package planner

import (
	"fmt"
	"math"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// compile returns expr as a node of a plan, or why it cannot be one.
func (w *walker) compile(expr parser.Expr, sc scope) (plan.Node, string) {
	switch {
	case sc.refused != "":
		return nil, sc.refused
	case sc.grid.Steps == 0:
		return nil, "it is evaluated at no step"
	}
	if reason, ok := w.env.Excluded[expr.PositionRange()]; ok {
		return nil, reason
	}
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return w.compile(e.Expr, sc)
	case *parser.VectorSelector:
		if sc.selectorRefused != "" {
			return nil, sc.selectorRefused
		}
		scan, reason := w.scan(e, sc)
		if scan == nil {
			return nil, reason
		}
		return &plan.Window{Scan: scan, Func: plan.Last, Width: w.lookback, ArgPos: e.PosRange, Pos: e.PosRange, Text: scan.Text}, ""
	case *parser.Call:
		return w.call(e, sc)
	case *parser.AggregateExpr:
		return w.aggregate(e, sc)
	case *parser.MatrixSelector:
		return nil, "a range selector is read by the function above it"
	case *parser.SubqueryExpr:
		return nil, "subqueries are not on an executor yet"
	case *parser.StepInvariantExpr:
		if v := w.constantVector(e.Expr); v != nil {
			return v, ""
		}
		return nil, "it is evaluated once and repeated at every step"
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nil, "it is a constant"
	case *parser.BinaryExpr:
		return w.binary(e, sc)
	case *parser.UnaryExpr:
		if e.Type() == parser.ValueTypeScalar {
			return nil, reasonScalar
		}
		sc.selectorRefused = ""
		if e.Op == parser.ADD {
			return w.compile(e.Expr, sc)
		}
		return w.mapped(&plan.Map{Func: plan.Maps["neg"], Pos: e.PositionRange(), Text: e.String()}, e.Expr, sc)
	}
	return nil, "it is not on an executor yet"
}

func (w *walker) call(e *parser.Call, sc scope) (plan.Node, string) {
	switch e.Func.Name {
	case "scalar", "time", "pi":
		return nil, reasonScalar
	case "vector":
		return w.vector(e, sc)
	}
	if f, ok := plan.Maps[e.Func.Name]; ok {
		return w.mapCall(f, e, sc)
	}
	if f, ok := plan.Histograms[e.Func.Name]; ok {
		return w.histogram(f, e, sc)
	}
	switch e.Func.Name {
	case "absent", "absent_over_time":
		return w.absent(e, sc)
	case "timestamp":
		return w.timestamp(e, sc)
	case "label_replace", "label_join":
		return w.relabel(e, sc)
	}
	if plan.Sorts[e.Func.Name] {
		return w.sort(e, sc)
	}
	f, ok := plan.Windows[e.Func.Name]
	if !ok {
		return nil, fmt.Sprintf("the function %s is not on an executor yet", e.Func.Name)
	}
	return w.window(f, e, sc)
}

// window compiles a function of a range selector or a subquery.
func (w *walker) window(f *plan.WindowFunc, e *parser.Call, sc scope) (plan.Node, string) {
	if sc.labels && f.Exactness != plan.BitIdentical {
		return nil, fmt.Sprintf("count_values makes labels of values, and those of %s may differ in their last bits", f.Name)
	}
	arg, param, trend := 0, math.NaN(), math.NaN()
	if f.Param != plan.NoParam {
		at := 1
		if f.Param == plan.ParamBefore {
			arg, at = 1, 0
		}
		var ok bool
		if param, ok = constant(e.Args[at]); !ok {
			return nil, reasonNotConstant(f.Name)
		}
		if f.Name == "quantile_over_time" && !(param >= 0 && param <= 1) {
			return nil, reasonQuantile
		}
		if f.Param == plan.TwoParamsAfter {
			if trend, ok = constant(e.Args[2]); !ok {
				return nil, reasonNotConstant(f.Name)
			}
			if !(param > 0 && param < 1 && trend > 0 && trend < 1) {
				return nil, "a smoothing or trend factor outside 0 to 1 is an error that Prometheus's engine raises"
			}
		}
	}
	if sub, ok := e.Args[arg].(*parser.SubqueryExpr); ok {
		return w.subwindow(f, param, trend, e, sub, sc)
	}
	m, ok := e.Args[arg].(*parser.MatrixSelector)
	if !ok {
		return nil, fmt.Sprintf("%s over anything but a range selector or a subquery is not on an executor yet", f.Name)
	}
	scan, reason := w.scan(m.VectorSelector.(*parser.VectorSelector), sc)
	if scan == nil {
		return nil, reason
	}
	return &plan.Window{
		Scan: scan, Func: f, Width: m.Range.Milliseconds(), Param: param, Trend: trend,
		ArgPos: m.PositionRange(), Pos: e.PosRange, Text: e.String(),
	}, ""
}

func reasonNotConstant(function string) string {
	return function + " with a parameter that is not a constant is not on an executor yet"
}

const reasonQuantile = "a quantile outside 0 to 1 is evaluated, with its warning, by Prometheus's engine"

// subwindow compiles a window function over a subquery.
func (w *walker) subwindow(f *plan.WindowFunc, param, trend float64, e *parser.Call, sub *parser.SubqueryExpr, sc scope) (plan.Node, string) {
	if sub.Timestamp != nil && sc.grid.Steps > 1 {
		return nil, "a subquery with @ is read at every step"
	}
	if w.losesMetadata(e) {
		return nil, reasonMetadata
	}
	inner := w.subquery(sub, sc)
	inner.selectorRefused = ""
	input, reason := w.compile(sub.Expr, inner)
	if input == nil {
		return nil, inputStays + reason
	}
	return &plan.Subwindow{
		Input: input, Inner: inner.grid, Func: f, Param: param, Trend: trend,
		Width: sub.Range.Milliseconds(), Offset: sub.OriginalOffset.Milliseconds(), Fixed: sub.Timestamp,
		Pos: e.PosRange, Text: e.String(),
	}, ""
}

// mapped compiles the input of m.
func (w *walker) mapped(m *plan.Map, input parser.Expr, sc scope) (plan.Node, string) {
	sc.selectorRefused = ""
	var reason string
	if m.Input, reason = w.compile(input, sc); m.Input == nil {
		return nil, inputStays + reason
	}
	return m, ""
}

func (w *walker) scan(v *parser.VectorSelector, sc scope) (*plan.Scan, string) {
	switch {
	case v.Anchored || v.Smoothed:
		return nil, "anchored and smoothed selectors are not on an executor yet"
	case v.Timestamp != nil && sc.moved:
		return nil, "a selector with @ lies under a subquery with an offset or @"
	case v.Timestamp != nil && sc.grid.Steps > 1:
		return nil, "a selector with @ is read at every step"
	}
	if reason, ok := w.env.Excluded[v.PosRange]; ok {
		return nil, reason
	}
	return &plan.Scan{
		Matchers: v.LabelMatchers, Offset: v.OriginalOffset.Milliseconds(), Fixed: v.Timestamp,
		Pos: v.PosRange, Text: v.String(),
	}, ""
}

const inputStays = "its input stays with Prometheus's engine: "
