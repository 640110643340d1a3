package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/histogram"
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
		n := &plan.Window{Scan: scan, Func: window.Last, Width: w.lookback, ArgPos: e.PosRange, Origin: w.origin(e)}
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
		return w.mapped(&plan.Map{Func: vector.Negate, Origin: w.origin(e)}, e.Expr, sc)
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
	return &plan.Once{Input: in, Origin: w.origin(e)}, ""
}

func (w *walker) call(e *parser.Call, sc scope) (plan.Node, string) {
	if f := vector.Named(e.Func.Name); f != nil {
		if len(e.Args) == 0 {
			return &plan.Date{Func: f, Origin: w.origin(e)}, ""
		}
		return w.mapCall(f, e, sc)
	}
	if f := histogram.Named(e.Func.Name); f != nil {
		return w.histogram(f, e, sc)
	}
	if f := window.Named(e.Func.Name); f != nil {
		return w.window(f, e, sc)
	}
	switch c := vector.Called(e.Func.Name); c.Node.(type) {
	case nil:
		return nil, fmt.Sprintf("the function %s is not on an executor yet", e.Func.Name)
	case *plan.Absent:
		return w.absent(c.Window, e, sc)
	case *plan.Window:
		return w.timestamp(c.Window, e, sc)
	case *plan.Relabel:
		return w.relabel(c.Pattern, e, sc)
	case *plan.Info:
		return w.info(e, sc)
	case *plan.Sort:
		return w.sort(e, sc)
	case *plan.Vector:
		return w.vector(e, sc)
	}
	return nil, reasonScalar
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
		ArgPos:    w.pos(m), Origin: w.origin(e),
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
	var input plan.Node = &plan.Nothing{Origin: w.origin(sub.Expr)}
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
		Origin: w.origin(e),
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
		Origin: w.origin(v),
	}, ""
}

// scope is what the walk knows on its way down.
type scope struct {
	grid       plan.Grid
	instant    bool // the evaluation ends when it starts
	outer      int  // see Part.Outer
	subqueries int  // enclosing subqueries
	moved      bool // an enclosing subquery has an offset or an @
	// asAbove says that the innermost subquery starts where what is above it does.
	asAbove bool
	refused string
	labels  bool // values become labels, so they must be Prometheus's to the last bit
	// anyName says that the names that series have here, and whether they are to lose
	// them in the end, do not matter above.
	anyName bool
	// leavesTypes says that types and units matter above nevertheless.
	leavesTypes bool
	// selectorRefused is why a bare selector here must stay: its parent reads
	// the selector itself.
	selectorRefused string
}

// forgetNames notes that the names below do not matter, nor types and units, if here is why.
func (sc *scope) forgetNames(here bool) {
	if here {
		sc.anyName, sc.leavesTypes = true, false
	}
}

// reasonAsAbove is about a quirk: Prometheus's engine adjusts the offset of what has an
// @ in a subquery only where that starts at another time than what is above it. Else
// it is what it was above, from which the offsets of the subqueries have been taken.
const reasonAsAbove = "something with @ lies in a subquery with an offset or @ that starts where the query does"

// subquery is the scope inside a subquery: the grid Prometheus's engine
// evaluates it on, which depends on the parent's.
func (w *walker) subquery(e *parser.SubqueryExpr, sc scope) scope {
	offset := e.OriginalOffset.Milliseconds()
	if e.Timestamp != nil {
		if sc.grid.Steps > 1 {
			// Prometheus's engine evaluates it for every step, but selects samples
			// up to the @ only.
			sc.refused = "a subquery with @ is read at every step"
		}
		if sc.moved && sc.asAbove {
			sc.refused = reasonAsAbove
		}
		offset += sc.grid.Start - *e.Timestamp
	}
	width := e.Range.Milliseconds()
	interval := e.Step.Milliseconds()
	if e.Step == 0 {
		interval = w.env.NoStepSubqueryInterval(width)
	}
	if interval <= 0 {
		sc.refused = "the subquery's step is not positive"
		interval = 1
	}
	end := sc.grid.End() - offset
	from := sc.grid.Start - offset - width
	start := interval * (from / interval)
	if start <= from {
		start += interval
	}
	sc.moved = sc.moved || e.Timestamp != nil || e.OriginalOffset != 0
	sc.asAbove = start == sc.grid.Start
	sc.subqueries++
	sc.outer = 0
	sc.grid = plan.NewGrid(start, end, interval)
	sc.instant = start == end
	if sc.grid.Steps > maxInnerSteps {
		sc.refused = "the subquery has too many steps for an executor, which holds values of all of them for some series at once"
	}
	return sc
}

// maxInnerSteps is the most steps of a subquery on an executor: 12 days at 1 s.
const maxInnerSteps = 1 << 20

// scalar compiles an expression that is a scalar.
func (w *walker) scalar(expr parser.Expr, sc scope) (plan.Node, string) {
	return w.try(expr, sc, true)
}

func (w *walker) scalarNode(expr parser.Expr, sc scope) (plan.Node, string) {
	if c, ok := w.constant(expr); ok {
		return &plan.Number{Value: c, Origin: w.origin(expr)}, ""
	}
	if reason := w.refused(expr, sc); reason != "" {
		return nil, reason
	}
	sc.selectorRefused = ""
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return w.scalar(e.Expr, sc)
	case *parser.StepInvariantExpr:
		return w.invariant(e, sc)
	case *parser.UnaryExpr:
		in, reason := w.scalar(e.Expr, sc)
		if in == nil || e.Op == parser.ADD {
			return in, reason
		}
		return &plan.Map{Func: vector.Negate, Input: in, Origin: w.origin(e)}, ""
	case *parser.BinaryExpr:
		f := vector.Named(e.Op.String())
		if f == nil {
			break
		}
		return w.scalarOp(f, e.LHS, e.RHS, e, sc)
	case *parser.Call:
		switch n := vector.Called(e.Func.Name).Node.(type) {
		case *plan.Time:
			return &plan.Time{Origin: w.origin(e)}, ""
		case *plan.ScalarOp:
			return w.scalarOp(n.Func, e.Args[0], e.Args[1], e, sc)
		case *plan.Scalar:
			sc.forgetNames(true)
			in, reason := w.compile(e.Args[0], sc)
			if in == nil {
				return nil, stays(reason)
			}
			return &plan.Scalar{Input: in, Origin: w.origin(e)}, ""
		}
	}
	if pos := w.pos(expr); pos.End-pos.Start > maxReasonText {
		return nil, "a long scalar stays with Prometheus's engine"
	}
	return nil, "the scalar " + expr.String() + " stays with Prometheus's engine"
}

// scalarOp compiles f of two scalars, which e is.
func (w *walker) scalarOp(f *plan.MapFunc, lhs, rhs, e parser.Expr, sc scope) (plan.Node, string) {
	o := &plan.ScalarOp{Func: f, Origin: w.origin(e)}
	var reason string
	if o.LHS, reason = w.scalar(lhs, sc); o.LHS == nil {
		return nil, stays(reason)
	}
	if o.RHS, reason = w.scalar(rhs, sc); o.RHS == nil {
		return nil, stays(reason)
	}
	return o, ""
}

// vector compiles a scalar made a vector.
func (w *walker) vector(e *parser.Call, sc scope) (plan.Node, string) {
	in, reason := w.scalar(e.Args[0], sc)
	if in == nil {
		return nil, stays(reason)
	}
	return &plan.Vector{Input: in, Origin: w.origin(e)}, ""
}

// binary compiles an operator of which at least one side is a vector.
func (w *walker) binary(e *parser.BinaryExpr, sc scope) (plan.Node, string) {
	sc.selectorRefused = ""
	vectors := 0
	for _, side := range []parser.Expr{e.LHS, e.RHS} {
		if w.of(side).typ == parser.ValueTypeVector {
			vectors++
		}
	}
	if vectors == 0 {
		return nil, reasonScalar
	}
	op := e.Op.String()
	set, isSet := plan.SetOps[op]
	f := vector.Named(op)
	switch {
	case !isSet && f == nil:
		return nil, fmt.Sprintf("the binary operator %s is not on an executor yet", op)
	case vectors == 1:
		return w.withScalar(f, e, sc)
	}
	sc.forgetNames(!isSet) // they are removed here, or it is forgotten that they were to be
	lhs, reason := w.compile(e.LHS, sc)
	if lhs == nil {
		return nil, stays(reason)
	}
	rhs, reason := w.compile(e.RHS, sc)
	if rhs == nil {
		return nil, stays(reason)
	}
	if isSet {
		mixed := set == plan.Or && w.env.DelayedNameRemoval && lhs.DropsName() != rhs.DropsName()
		if mixed && !sc.anyName {
			return nil, plan.ReasonMixed
		}
		return &plan.Set{
			Op: set, LHS: lhs, RHS: rhs, Matching: e.VectorMatching, MixedTypes: mixed && sc.leavesTypes,
			Origin: w.origin(e),
		}, ""
	}
	return &plan.Binary{
		Func: f, LHS: lhs, RHS: rhs, Bool: e.ReturnBool, Matching: e.VectorMatching,
		Origin: w.origin(e),
	}, ""
}

// withScalar compiles an operator between a vector and a scalar.
func (w *walker) withScalar(f *plan.MapFunc, e *parser.BinaryExpr, sc scope) (plan.Node, string) {
	vector, scalar, at := e.LHS, e.RHS, 0
	if w.of(e.LHS).typ != parser.ValueTypeVector {
		vector, scalar, at = e.RHS, e.LHS, 1
	}
	if c, ok := w.constant(scalar); ok {
		return w.mapped(&plan.Map{
			Func: f, Args: []float64{c}, Swap: at == 1, Bool: e.ReturnBool, Scalars: 1,
			Origin: w.origin(e),
		}, vector, sc)
	}
	m := &plan.StepMap{Func: f, Vector: at, Bool: e.ReturnBool, Origin: w.origin(e)}
	return w.stepMapped(m, []parser.Expr{e.LHS, e.RHS}, sc)
}

// mapCall compiles a function of one vector and scalars.
func (w *walker) mapCall(f *plan.MapFunc, e *parser.Call, sc scope) (plan.Node, string) {
	m := &plan.Map{Func: f, Scalars: len(e.Args) - 1, Origin: w.origin(e)}
	for _, a := range e.Args[1:] {
		c, ok := w.constant(a)
		if !ok {
			return w.stepMapped(&plan.StepMap{Func: f, Origin: w.origin(e)}, e.Args, sc)
		}
		m.Args = append(m.Args, c)
	}
	if len(m.Args) < f.Args {
		m.Args = append(m.Args, f.Default)
	}
	if drops := vector.Of(f).Drops; drops != nil && drops(m.Args) {
		return w.stepMapped(&plan.StepMap{Func: f, Origin: w.origin(e)}, e.Args, sc)
	}
	return w.mapped(m, e.Args[0], sc)
}

// stepMapped compiles the operands of m.
func (w *walker) stepMapped(m *plan.StepMap, operands []parser.Expr, sc scope) (plan.Node, string) {
	sc.selectorRefused = ""
	sc.forgetNames(!m.Filters())
	m.Merges = w.merges(m.Pos)
	for i, e := range operands {
		compile := w.scalar
		if i == m.Vector {
			compile = w.compile
		}
		n, reason := compile(e, sc)
		if n == nil {
			return nil, stays(reason)
		}
		m.Operands = append(m.Operands, n)
	}
	return m, ""
}

// aggregate compiles an aggregation operator.
func (w *walker) aggregate(e *parser.AggregateExpr, sc scope) (plan.Node, string) {
	f := aggregate.Named(e.Op.String())
	if f == nil {
		return nil, fmt.Sprintf("the aggregation operator %s is not on an executor yet", e.Op)
	}
	a := &plan.Aggregate{Func: f, Without: e.Without, Grouping: slices.Clone(e.Grouping), Origin: w.origin(e)}
	if name, ok := e.Param.(*parser.StringLiteral); ok && !model.UTF8Validation.IsValidLabelName(name.Val) {
		return &plan.Failure{Err: fmt.Errorf("invalid label name %s", name), Origin: w.origin(e)}, ""
	}
	if reason := w.parameter(a, e, sc); reason != "" {
		return nil, reason
	}
	slices.Sort(a.Grouping)
	sc.selectorRefused = ""
	sc.labels = sc.labels || f.Labels
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
	if a.Func.Labels {
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
