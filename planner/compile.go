package planner

import (
	"fmt"
	"math"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// compile returns expr as a node of a plan, or why it cannot be one.
func (w *walker) compile(expr parser.Expr, sc scope) (plan.Node, string) {
	return w.try(expr, sc, false)
}

func (w *walker) vectorNode(expr parser.Expr, sc scope) (plan.Node, string) {
	if reason := w.refused(expr, sc); reason != "" {
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
		n := &plan.Window{Scan: scan, Func: window.Last, Width: w.lookback, ArgPos: e.PosRange, Pos: e.PosRange, Text: e}
		if e.Smoothed { // anchored means nothing there
			n.Func, n.Extension = window.Interpolated, plan.Extension{Modifier: plan.Smoothed, After: w.lookback}
		}
		return n, ""
	case *parser.Call:
		return w.call(e, sc)
	case *parser.AggregateExpr:
		return w.aggregate(e, sc)
	case *parser.MatrixSelector:
		return nil, "a range selector is read by the function above it"
	case *parser.SubqueryExpr:
		return nil, "a subquery is read by the function above it"
	case *parser.StepInvariantExpr:
		return w.invariant(e, sc)
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nil, "it is a constant"
	case *parser.BinaryExpr:
		return w.binary(e, sc)
	case *parser.UnaryExpr:
		if w.of(e).typ == parser.ValueTypeScalar {
			return nil, reasonScalar
		}
		sc.selectorRefused = ""
		if e.Op == parser.ADD {
			return w.compile(e.Expr, sc)
		}
		return w.mapped(&plan.Map{Func: vector.Named("neg"), Pos: w.pos(e), Text: e}, e.Expr, sc)
	}
	return nil, "it is not on an executor yet"
}

// refused says why nothing of expr can be a node, or nothing.
func (w *walker) refused(expr parser.Expr, sc scope) string {
	switch {
	case sc.refused != "":
		return sc.refused
	case sc.grid.Steps == 0:
		return reasonNoStep
	}
	if len(w.env.Excluded) == 0 {
		return ""
	}
	return w.env.Excluded[w.pos(expr)]
}

// merges reports whether series of the result of the expression at pos may be the same.
func (w *walker) merges(pos posrange.PositionRange) bool {
	return w.env.MergingAll || w.env.Merging[pos]
}

// invariant compiles an expression that does not depend on the step.
func (w *walker) invariant(e *parser.StepInvariantExpr, sc scope) (plan.Node, string) {
	repeated := sc.grid.Steps > 1
	sc.grid.Steps, sc.instant, sc.selectorRefused = 1, true, ""
	in, reason := w.typed(e.Expr, sc)
	if in == nil {
		return nil, stays(reason)
	}
	if !repeated {
		return in, ""
	}
	return &plan.Once{Input: in, Pos: w.pos(e), Text: e}, ""
}

func (w *walker) call(e *parser.Call, sc scope) (plan.Node, string) {
	switch e.Func.Name {
	case "scalar", "time", "pi":
		return nil, reasonScalar
	case "vector":
		return w.vector(e, sc)
	}
	if f := vector.Named(e.Func.Name); f != nil {
		if len(e.Args) == 0 {
			return &plan.Date{Func: f, Pos: e.PosRange, Text: e}, ""
		}
		return w.mapCall(f, e, sc)
	}
	if f, ok := plan.Histograms[e.Func.Name]; ok {
		return w.histogram(f, e, sc)
	}
	switch e.Func.Name {
	case "absent", "absent_over_time":
		return w.absent(e, sc)
	case "timestamp", "start_timestamp":
		return w.timestamp(e, sc)
	case "label_replace", "label_join":
		return w.relabel(e, sc)
	case "info":
		return w.info(e, sc)
	}
	if plan.Sorts[e.Func.Name] {
		return w.sort(e, sc)
	}
	f := window.Named(e.Func.Name)
	if f == nil {
		return nil, fmt.Sprintf("the function %s is not on an executor yet", e.Func.Name)
	}
	return w.window(f, e, sc)
}

// window compiles a function of a range selector or a subquery.
func (w *walker) window(f *plan.WindowFunc, e *parser.Call, sc scope) (plan.Node, string) {
	if w.env.Bits {
		f = window.Bits(f)
	}
	if sc.labels && f.Exactness != plan.BitIdentical {
		return nil, fmt.Sprintf("count_values makes labels of values, and those of %s may differ in their last bits", f.Name)
	}
	p, reason := w.parameters(f, e, sc)
	if reason != "" {
		return nil, reason
	}
	arg := 0
	if f.Param == plan.ParamBefore {
		arg = 1
	}
	if sub, ok := e.Args[arg].(*parser.SubqueryExpr); ok {
		return w.subwindow(f, p, e, sub, sc)
	}
	m, ok := e.Args[arg].(*parser.MatrixSelector)
	if !ok {
		return nil, fmt.Sprintf("%s over anything but a range selector or a subquery is not on an executor yet", f.Name)
	}
	extension, reason := w.extension(f, m)
	if reason != "" {
		return nil, reason
	}
	// With @ the window is the same at every step.
	at := sc
	at.grid.Steps = 1
	scan, reason := w.scan(m.VectorSelector.(*parser.VectorSelector), at)
	if scan == nil {
		return nil, reason
	}
	return &plan.Window{
		Scan: scan, Func: f, Width: m.Range.Milliseconds(),
		Param: p.first, Trend: p.second, Params: p.nodes, ParamPos: p.pos,
		Extension: extension,
		ArgPos:    w.pos(m), Pos: e.PosRange, Text: e,
	}, ""
}

// parameters are the scalar parameters of a window function.
type parameters struct {
	first, second float64
	nodes         []plan.Node // where they are not all constants
	pos           posrange.PositionRange
}

// parameters compiles the scalar parameters of a window function.
func (w *walker) parameters(f *plan.WindowFunc, e *parser.Call, sc scope) (parameters, string) {
	p := parameters{first: math.NaN(), second: math.NaN()}
	var args parser.Expressions
	switch f.Param {
	case plan.NoParam:
		return p, ""
	case plan.ParamBefore:
		args = e.Args[:1]
	default:
		args = e.Args[1 : 1+f.Param.Count()]
	}
	p.pos = w.pos(args[0])
	constants := true
	for i, v := range []*float64{&p.first, &p.second}[:len(args)] {
		c, ok := w.constant(args[i])
		*v, constants = c, constants && ok
	}
	if constants {
		return p, ""
	}
	for _, a := range args {
		n, reason := w.scalar(a, sc)
		if n == nil {
			return p, stays(reason)
		}
		p.nodes = append(p.nodes, n)
	}
	return p, ""
}

// subwindow compiles a window function over a subquery.
func (w *walker) subwindow(f *plan.WindowFunc, p parameters, e *parser.Call, sub *parser.SubqueryExpr, sc scope) (plan.Node, string) {
	if sub.Timestamp != nil && sc.grid.Steps > 1 {
		return nil, "a subquery with @ is read at every step"
	}
	if w.losesMetadata(e) {
		return nil, reasonMetadata
	}
	inner := w.subquery(sub, sc)
	inner.selectorRefused = ""
	inner.forgetNames(!f.KeepsName)
	var input plan.Node = &plan.Nothing{Pos: w.pos(sub.Expr), Text: sub.Expr}
	if inner.grid.Steps > 0 || inner.refused != "" {
		var reason string
		if input, reason = w.compile(sub.Expr, inner); input == nil {
			return nil, stays(reason)
		}
	}
	return &plan.Subwindow{
		Input: input, Inner: inner.grid, Func: f,
		Param: p.first, Trend: p.second, Params: p.nodes, ParamPos: p.pos,
		Width: sub.Range.Milliseconds(), Offset: sub.OriginalOffset.Milliseconds(), Fixed: sub.Timestamp,
		Pos: e.PosRange, Text: e,
	}, ""
}

// mapped compiles the input of m.
func (w *walker) mapped(m *plan.Map, input parser.Expr, sc scope) (plan.Node, string) {
	sc.selectorRefused = ""
	sc.forgetNames(!m.Filters())
	m.Merges = w.merges(m.Pos)
	var reason string
	if m.Input, reason = w.compile(input, sc); m.Input == nil {
		return nil, stays(reason)
	}
	return m, ""
}

func (w *walker) scan(v *parser.VectorSelector, sc scope) (*plan.Scan, string) {
	switch {
	case v.Timestamp != nil && sc.moved && sc.asAbove:
		return nil, reasonAsAbove
	case v.Timestamp != nil && sc.grid.Steps > 1:
		return nil, "a selector with @ is read at every step"
	}
	if reason, ok := w.env.Excluded[v.PosRange]; ok {
		return nil, reason
	}
	return &plan.Scan{
		Matchers: v.LabelMatchers, Offset: v.OriginalOffset.Milliseconds(), Fixed: v.Timestamp,
		Pos: v.PosRange, Text: v,
	}, ""
}
