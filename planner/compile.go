package planner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// compile returns a vector or a scalar as a node of a plan, or leaves the query.
func (w *walker) compile(expr parser.Expr, sc scope) plan.Node {
	if w.facts[expr].typ == parser.ValueTypeScalar {
		return w.scalar(expr, sc)
	}
	if w.stopped() {
		return nil
	}
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return w.compile(e.Expr, sc)
	case *parser.VectorSelector:
		n := &plan.Window{Scan: w.scan(e, sc), Func: window.Last, Width: w.lookback, ArgPos: e.PosRange, Origin: w.origin(e)}
		if e.Smoothed { // anchored means nothing there
			n.Func, n.Extension = window.Interpolated, plan.Extension{Modifier: plan.Smoothed, After: w.lookback}
		}
		return n
	case *parser.Call:
		return w.call(e, sc)
	case *parser.AggregateExpr:
		return w.aggregate(e, sc)
	case *parser.MatrixSelector, *parser.SubqueryExpr:
		return w.leave(e, "ranges of samples are for the function above them")
	case *parser.StepInvariantExpr:
		return w.invariant(e, sc)
	case *parser.BinaryExpr:
		return w.binary(e, sc)
	case *parser.UnaryExpr:
		if e.Op == parser.ADD {
			return w.compile(e.Expr, sc)
		}
		return w.mapped(&plan.Map{Func: vector.Negate, Unary: plan.Unary{Origin: w.origin(e)}}, e.Expr, sc)
	}
	return w.leave(expr, "it is not on an executor yet")
}

// invariant compiles an expression that does not depend on the step.
func (w *walker) invariant(e *parser.StepInvariantExpr, sc scope) plan.Node {
	repeated := sc.grid.Steps > 1
	sc.grid.Steps, sc.instant = 1, true
	in := w.compile(e.Expr, sc)
	if !repeated {
		return in
	}
	return &plan.Once{Unary: plan.Unary{Input: in, Origin: w.origin(e)}}
}

// window compiles a function of a range selector or a subquery.
func (w *walker) window(f *plan.WindowFunc, e *parser.Call, sc scope) plan.Node {
	if w.env.Bits {
		f = window.Bits(f)
	}
	if sc.labels && f.Exactness != plan.BitIdentical {
		return w.leave(e, fmt.Sprintf("count_values makes labels of values, and those of %s may differ in their last bits", f.Name))
	}
	p := w.parameters(f, e, sc)
	arg := 0
	if f.Param == plan.ParamBefore {
		arg = 1
	}
	if sub, ok := e.Args[arg].(*parser.SubqueryExpr); ok {
		return w.subwindow(f, p, e, sub, sc)
	}
	m, ok := e.Args[arg].(*parser.MatrixSelector)
	if !ok {
		return w.leave(e, fmt.Sprintf("%s over anything but a range selector or a subquery is not on an executor yet", f.Name))
	}
	extension, reason := w.extension(f, m)
	if reason != "" {
		return w.leave(e, reason)
	}
	// With @ the window is the same at every step.
	sc.grid.Steps = 1
	return &plan.Window{
		Scan: w.scan(m.VectorSelector.(*parser.VectorSelector), sc), Func: f, Width: m.Range.Milliseconds(),
		Parameters: p, Extension: extension, ArgPos: w.facts[m].pos, Origin: w.origin(e),
	}
}

// extension says which samples beside its windows function f reads of a range
// selector, or why it stays with Prometheus's engine.
func (w *walker) extension(f *plan.WindowFunc, m *parser.MatrixSelector) (plan.Extension, string) {
	v := m.VectorSelector.(*parser.VectorSelector)
	modifier, name := plan.Unmodified, ""
	switch {
	case m.Range%time.Millisecond != 0 || v.OriginalOffset%time.Millisecond != 0:
		return plan.Extension{}, "its range and its offset are no whole milliseconds, which Prometheus's engine rounds in several ways"
	case v.Anchored:
		modifier, name = plan.Anchored, "an anchored"
	case v.Smoothed:
		modifier, name = plan.Smoothed, "a smoothed"
	default:
		return plan.Extension{}, ""
	}
	if !slices.Contains(f.Modifiers, modifier) {
		return plan.Extension{}, fmt.Sprintf("%s of %s selector is an error that Prometheus's engine raises", f.Name, name)
	}
	return plan.NewExtension(modifier, w.lookback), ""
}

// parameters compiles the scalar parameters of a window function.
func (w *walker) parameters(f *plan.WindowFunc, e *parser.Call, sc scope) plan.Parameters {
	p := plan.Parameters{Param: math.NaN(), Trend: math.NaN()}
	var args parser.Expressions
	switch f.Param {
	case plan.NoParam:
		return p
	case plan.ParamBefore:
		args = e.Args[:1]
	default:
		args = e.Args[1 : 1+f.Param.Count()]
	}
	p.ParamPos = w.facts[args[0]].pos
	constants := true
	for i, v := range []*float64{&p.Param, &p.Trend}[:len(args)] {
		c, ok := w.constant(args[i])
		*v, constants = c, constants && ok
	}
	if constants {
		return p
	}
	for _, a := range args {
		p.Params = append(p.Params, w.scalar(a, sc))
	}
	return p
}

// subwindow compiles a window function over a subquery.
func (w *walker) subwindow(f *plan.WindowFunc, p plan.Parameters, e *parser.Call, sub *parser.SubqueryExpr, sc scope) plan.Node {
	// Prometheus's engine remembers of series in a subquery that they are to lose their name, type and
	// unit, and then takes away labels that were set since.
	if named := window.Named(e.Func.Name); named != nil && named.KeepsName && !w.env.DelayedNameRemoval && w.facts[e].metadata {
		return w.leave(e, reasonMetadata)
	}
	inner := w.subquery(sub, sc)
	inner.forgetNames(!f.KeepsName)
	var input plan.Node = &plan.Nothing{Origin: w.origin(sub.Expr)}
	if inner.grid.Steps > 0 {
		input = w.compile(sub.Expr, inner)
	}
	return &plan.Subwindow{
		Input: input, Inner: inner.grid, Func: f, Parameters: p,
		Width: sub.Range.Milliseconds(), Offset: sub.OriginalOffset.Milliseconds(), Fixed: sub.Timestamp,
		Origin: w.origin(e),
	}
}

// mapped compiles the input of m.
func (w *walker) mapped(m *plan.Map, input parser.Expr, sc scope) plan.Node {
	sc.forgetNames(!m.Filters())
	m.Input = w.compile(input, sc)
	return m
}

func (w *walker) scan(v *parser.VectorSelector, sc scope) *plan.Scan {
	switch {
	case v.Timestamp != nil && sc.moved && sc.asAbove:
		w.leave(v, reasonAsAbove)
	case v.Timestamp != nil && sc.grid.Steps > 1:
		w.leave(v, "a selector with @ is read at every step")
	}
	w.scans = true
	return &plan.Scan{
		Matchers: v.LabelMatchers, Offset: v.OriginalOffset.Milliseconds(), Fixed: v.Timestamp,
		Origin: w.origin(v),
	}
}

// scope is what the walk knows on its way down.
type scope struct {
	grid    plan.Grid
	instant bool // the evaluation ends when it starts
	moved   bool // an enclosing subquery has an offset or an @
	// asAbove says that the innermost subquery starts where what is above it does.
	asAbove bool
	labels  bool // values become labels, so they must be Prometheus's to the last bit
	// anyName says that the names that series have here, and whether they are to lose
	// them in the end, do not matter above.
	anyName bool
	// leavesTypes says that types and units matter above nevertheless.
	leavesTypes bool
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
			w.leave(e, "a subquery with @ is read at every step")
		}
		if sc.moved && sc.asAbove {
			w.leave(e, reasonAsAbove)
		}
		offset += sc.grid.Start - *e.Timestamp
	}
	width := e.Range.Milliseconds()
	interval := e.Step.Milliseconds()
	if e.Step == 0 {
		interval = w.env.NoStepSubqueryInterval(width)
	}
	if interval <= 0 {
		w.leave(e, "the subquery's step is not positive")
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
	sc.grid = plan.NewGrid(start, end, interval)
	sc.instant = start == end
	if sc.grid.Steps > maxInnerSteps {
		w.leave(e, "the subquery has too many steps for an executor, which holds values of all of them for some series at once")
	}
	return sc
}

// maxInnerSteps is the most steps of a subquery on an executor: 12 days at 1 s.
const maxInnerSteps = 1 << 20

// scalar returns a scalar as a node of a plan, or leaves the query.
func (w *walker) scalar(expr parser.Expr, sc scope) plan.Node {
	if w.stopped() {
		return nil
	}
	if c, ok := w.constant(expr); ok {
		return &plan.Number{Value: c, Origin: w.origin(expr)}
	}
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return w.scalar(e.Expr, sc)
	case *parser.StepInvariantExpr:
		return w.invariant(e, sc)
	case *parser.UnaryExpr:
		in := w.scalar(e.Expr, sc)
		if e.Op == parser.ADD {
			return in
		}
		return &plan.Map{Func: vector.Negate, Unary: plan.Unary{Input: in, Origin: w.origin(e)}}
	case *parser.BinaryExpr:
		if f := vector.Named(e.Op.String()); f != nil {
			return w.scalarOp(f, e.LHS, e.RHS, e, sc)
		}
	case *parser.Call:
		switch n := vector.Called(e.Func.Name).Node.(type) {
		case *plan.Time:
			return &plan.Time{Origin: w.origin(e)}
		case *plan.ScalarOp:
			return w.scalarOp(n.Func, e.Args[0], e.Args[1], e, sc)
		case *plan.Scalar:
			sc.forgetNames(true)
			return &plan.Scalar{Input: w.compile(e.Args[0], sc), Origin: w.origin(e)}
		}
	}
	return w.leave(expr, "it is a scalar that is not on an executor yet")
}

// scalarOp compiles f of two scalars, which e is.
func (w *walker) scalarOp(f *plan.MapFunc, lhs, rhs, e parser.Expr, sc scope) plan.Node {
	return &plan.ScalarOp{Func: f, LHS: w.scalar(lhs, sc), RHS: w.scalar(rhs, sc), Origin: w.origin(e)}
}

// binary compiles an operator of which at least one side is a vector.
func (w *walker) binary(e *parser.BinaryExpr, sc scope) plan.Node {
	op := e.Op.String()
	set, isSet := plan.SetOps[op]
	f := vector.Named(op)
	switch {
	case !isSet && f == nil:
		return w.leave(e, fmt.Sprintf("the binary operator %s is not on an executor yet", op))
	case w.facts[e.LHS].typ == parser.ValueTypeScalar || w.facts[e.RHS].typ == parser.ValueTypeScalar:
		return w.withScalar(f, e, sc)
	}
	sc.forgetNames(!isSet) // they are removed here, or it is forgotten that they were to be
	lhs, rhs := w.compile(e.LHS, sc), w.compile(e.RHS, sc)
	if isSet {
		return w.set(&plan.Set{Op: set, LHS: lhs, RHS: rhs, Matching: e.VectorMatching, Origin: w.origin(e)}, e, sc)
	}
	return &plan.Binary{
		Func: f, LHS: lhs, RHS: rhs, Bool: e.ReturnBool, Matching: e.VectorMatching,
		Origin: w.origin(e),
	}
}

// set completes an operator on sets. An or of which one side alone is to lose its names when the
// query ends does as the other one says, where that side has none to lose.
func (w *walker) set(n *plan.Set, e *parser.BinaryExpr, sc scope) plan.Node {
	if w.left != nil || n.Op != plan.Or || !w.env.DelayedNameRemoval || n.LHS.DropsName() == n.RHS.DropsName() {
		return n
	}
	n.MixedTypes = sc.leavesTypes
	if sc.anyName {
		return n
	}
	n.AsRight = nameless(n.LHS)
	if w.metadata || !n.AsRight && !nameless(n.RHS) {
		return w.leave(e, plan.ReasonMixed)
	}
	return n
}

// nameless reports whether no series of the result of n has a name, a type or a unit, whether it is
// to lose them in the end or not.
func nameless(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Vector, *plan.Date, *plan.Number, *plan.Time, *plan.Scalar, *plan.ScalarOp:
		return true
	case *plan.Aggregate:
		if n.Func.Keeps {
			return nameless(n.Input)
		}
		return !n.Without && !groupsByName(n)
	case *plan.Binary:
		return !n.Func.Compares && !slices.ContainsFunc(n.Matching.Include, schema.IsMetadataLabel) || nameless(n.LHS) && nameless(n.RHS)
	case *plan.Histogram:
		return nameless(n.Input) && !schema.IsMetadataLabel(n.Label)
	case *plan.Map, *plan.StepMap, *plan.Subwindow, *plan.Sort, *plan.Once, *plan.Set:
		return !slices.ContainsFunc(n.Inputs(), func(in plan.Node) bool { return !nameless(in) })
	}
	return false
}

// withScalar compiles an operator between a vector and a scalar.
func (w *walker) withScalar(f *plan.MapFunc, e *parser.BinaryExpr, sc scope) plan.Node {
	vector, scalar, at := e.LHS, e.RHS, 0
	if w.facts[e.LHS].typ != parser.ValueTypeVector {
		vector, scalar, at = e.RHS, e.LHS, 1
	}
	if c, ok := w.constant(scalar); ok {
		return w.mapped(&plan.Map{
			Func: f, Args: []float64{c}, Swap: at == 1, Bool: e.ReturnBool, Scalars: 1,
			Unary: plan.Unary{Origin: w.origin(e)},
		}, vector, sc)
	}
	m := &plan.StepMap{Func: f, Vector: at, Bool: e.ReturnBool, Origin: w.origin(e)}
	return w.stepMapped(m, []parser.Expr{e.LHS, e.RHS}, sc)
}

// mapCall compiles a function of one vector and scalars.
func (w *walker) mapCall(f *plan.MapFunc, e *parser.Call, sc scope) plan.Node {
	m := &plan.Map{Func: f, Scalars: len(e.Args) - 1, Unary: plan.Unary{Origin: w.origin(e)}}
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
func (w *walker) stepMapped(m *plan.StepMap, operands []parser.Expr, sc scope) plan.Node {
	sc.forgetNames(!m.Filters())
	for i, e := range operands {
		compile := w.scalar
		if i == m.Vector {
			compile = w.compile
		}
		m.Operands = append(m.Operands, compile(e, sc))
	}
	return m
}

// aggregate compiles an aggregation operator.
func (w *walker) aggregate(e *parser.AggregateExpr, sc scope) plan.Node {
	f := aggregate.Named(e.Op.String())
	if f == nil {
		return w.leave(e, fmt.Sprintf("the aggregation operator %s is not on an executor yet", e.Op))
	}
	a := &plan.Aggregate{Func: f, Without: e.Without, Grouping: slices.Clone(e.Grouping), Origin: w.origin(e)}
	if name, ok := e.Param.(*parser.StringLiteral); ok && !model.UTF8Validation.IsValidLabelName(name.Val) {
		return &plan.Failure{Err: fmt.Errorf("invalid label name %s", name), Origin: w.origin(e)}
	}
	if e.Param != nil {
		w.parameter(a, e, sc)
	}
	slices.Sort(a.Grouping)
	sc.labels = sc.labels || f.Labels
	if !a.Func.Keeps && !groupsByName(a) {
		// Grouping without some labels removes names, but neither types nor units.
		sc.leavesTypes = a.Without && (!sc.anyName || sc.leavesTypes)
		sc.anyName = true
	}
	a.Input = w.compile(e.Expr, sc)
	return a
}

// groupsByName reports whether a groups by what belongs to a name.
func groupsByName(a *plan.Aggregate) bool {
	return !a.Without && slices.ContainsFunc(a.Grouping, schema.IsMetadataLabel)
}

// parameter puts the operator's parameter into a.
func (w *walker) parameter(a *plan.Aggregate, e *parser.AggregateExpr, sc scope) {
	if a.Func.Labels {
		name, ok := e.Param.(*parser.StringLiteral)
		if !ok {
			w.leave(e, "count_values with a label name in parentheses is not on an executor yet")
			return
		}
		a.Label = name.Val
		if !a.Without {
			a.Grouping = append(a.Grouping, a.Label)
		}
		return
	}
	a.ParamPos = w.facts[e.Param].pos
	var constant bool
	if a.Param, constant = w.constant(e.Param); !constant {
		a.ParamNode = w.scalar(e.Param, sc)
	}
}
