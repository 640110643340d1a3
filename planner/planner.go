// Package planner compiles a query to a plan for the executors, or says why Prometheus's engine
// evaluates it.
//
// The tree that comes in is one that Prometheus's engine has preprocessed. It is walked once, top
// down, with the step grid that each expression is evaluated on. The first expression that the nodes
// of package plan cannot express leaves the whole query to that engine. The tree is not changed.
//
// Start with New.
package planner

import (
	"cmp"
	"context"
	"reflect"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/cpuexec/histogram"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

// Env is what a plan depends on besides the query.
type Env struct {
	// NoStepSubqueryInterval is the step in ms of a subquery that states none.
	NoStepSubqueryInterval func(rangeMillis int64) int64
	// DelayedNameRemoval says that metric names are removed when the query ends.
	DelayedNameRemoval bool
	// StartTimestamps says that the engine uses start timestamps.
	StartTimestamps bool
	// Bits says that all values are to have Prometheus's bits.
	Bits bool
}

// Plan says how a query is evaluated: by executors, or by Prometheus's engine.
type Plan struct {
	Node plan.Node // nil where Prometheus's engine evaluates the query
	Grid plan.Grid
	Root *plan.Decision               // says who evaluates what, and why
	Of   map[plan.Node]*plan.Decision // the decisions of nodes

	w    *walker
	expr parser.Expr
}

// New returns the plan of a statement. When the context ends first, the error is that of
// Prometheus's engine.
func New(ctx context.Context, stmt *parser.EvalStmt, env Env) (*Plan, error) {
	w := &walker{ctx: ctx, env: env, lookback: stmt.LookbackDelta.Milliseconds(), facts: map[parser.Expr]*facts{}}
	start, end := stmt.Start.UnixNano()/int64(time.Millisecond), stmt.End.UnixNano()/int64(time.Millisecond)
	p := &Plan{Grid: plan.NewGrid(start, end, stmt.Interval.Milliseconds()), Of: map[plan.Node]*plan.Decision{}, w: w, expr: stmt.Expr}
	root := w.learn(stmt.Expr)
	w.metadata = root.metadata
	switch {
	case stmt.Interval > 0 && stmt.Interval < time.Millisecond:
		w.leave(stmt.Expr, "its step is shorter than a millisecond, which Prometheus's engine fails at")
	case root.selects && p.Grid.Steps > 0:
		p.Node = w.compile(stmt.Expr, scope{grid: p.Grid, instant: start == end})
	}
	switch {
	case w.ended != nil:
		return nil, w.ended
	case w.left != nil:
		p.Leave(w.facts[w.left].pos, w.reason)
	case p.Node == nil || !w.scans:
		p.Leave(root.pos, reasonIdle)
		p.Root.Walk(func(d *plan.Decision) { d.Own, d.Idle, d.Reason = false, true, reasonIdle })
	default:
		p.Root = describe(p.Node, p.Of)
		p.Root.Steps = p.Grid.Steps
	}
	return p, nil
}

// Leave leaves the query to Prometheus's engine, because of the expression at a position.
func (p *Plan) Leave(at posrange.PositionRange, reason string) {
	p.Node = nil
	p.Root, _ = p.w.decisions(p.expr, at, [2]string{reason, wholeStays + reason})
	p.Root.Steps = p.Grid.Steps
}

type walker struct {
	ctx      context.Context
	env      Env
	lookback int64
	facts    map[parser.Expr]*facts // of all expressions of the query
	metadata bool                   // see facts, of the whole query
	steps    int                    // compiled nodes
	scans    bool                   // a selector is among them
	ended    error                  // of the context
	// left is the first expression that was found not to be one for executors, for a reason.
	left   parser.Expr
	reason string
}

// leave leaves the query to Prometheus's engine, because of e. It returns no node.
func (w *walker) leave(e parser.Expr, reason string) plan.Node {
	if w.left == nil {
		w.left, w.reason = e, reason
	}
	return nil
}

// decisions are those of a query that Prometheus's engine evaluates because of the expression at a
// position: the innermost one that is there. The first reason is that expression's, the second one
// that of all others. found says that it is at or below e.
func (w *walker) decisions(e parser.Expr, at posrange.PositionRange, reasons [2]string) (d *plan.Decision, found bool) {
	f := w.facts[e]
	d = &plan.Decision{Text: e, Pos: f.pos, Kind: cmp.Or(kinds[reflect.TypeOf(e)], "expression"), Executor: plan.OnPrometheus, Reason: reasons[1]}
	for child := range parser.ChildrenIter(e) {
		below, ok := w.decisions(child.(parser.Expr), at, reasons)
		d.Children, found = append(d.Children, below), found || ok
	}
	switch {
	case !found && f.pos == at:
		d.Own, d.Reason, found = true, reasons[0], true
	case !f.selects:
		d.Idle, d.Reason = true, reasonIdle
	}
	return d, found
}

// describe renders a planned node and those below it, and notes them in of.
func describe(n plan.Node, of map[plan.Node]*plan.Decision) *plan.Decision {
	d := &plan.Decision{Text: n, Pos: n.Range(), Kind: cmp.Or(kinds[reflect.TypeOf(n)], "scalar"), Executor: plan.OnCPU}
	of[n] = d
	for _, in := range n.Inputs() {
		d.Children = append(d.Children, describe(in, of))
	}
	if a, ok := n.(*plan.Absent); ok && a.OverTime {
		// The window below it is no expression of its own.
		d.Children = d.Children[0].Children
	}
	return d
}

// kinds are what decisions call nodes of plans, and expressions that have none.
var kinds = map[reflect.Type]string{
	reflect.TypeFor[*plan.Aggregate]():           "aggregate",
	reflect.TypeFor[*plan.Map]():                 "map",
	reflect.TypeFor[*plan.StepMap]():             "map",
	reflect.TypeFor[*plan.Subwindow]():           "subquery window",
	reflect.TypeFor[*plan.Histogram]():           "histogram",
	reflect.TypeFor[*plan.Absent]():              "absent",
	reflect.TypeFor[*plan.Window]():              "window",
	reflect.TypeFor[*plan.Binary]():              "binary",
	reflect.TypeFor[*plan.Set]():                 "set",
	reflect.TypeFor[*plan.Relabel]():             "labels",
	reflect.TypeFor[*plan.Sort]():                "sort",
	reflect.TypeFor[*plan.Once]():                "step invariant",
	reflect.TypeFor[*plan.Nothing]():             "constant",
	reflect.TypeFor[*plan.Failure]():             "constant",
	reflect.TypeFor[*plan.Info]():                "info",
	reflect.TypeFor[*parser.VectorSelector]():    "selector",
	reflect.TypeFor[*parser.MatrixSelector]():    "range selector",
	reflect.TypeFor[*parser.Call]():              "call",
	reflect.TypeFor[*parser.AggregateExpr]():     "aggregate",
	reflect.TypeFor[*parser.BinaryExpr]():        "binary",
	reflect.TypeFor[*parser.SubqueryExpr]():      "subquery",
	reflect.TypeFor[*parser.StepInvariantExpr](): "step invariant",
	reflect.TypeFor[*parser.NumberLiteral]():     "constant",
	reflect.TypeFor[*parser.StringLiteral]():     "constant",
}

// stepsPerCheck is the number of nodes after which the context is looked at again.
const stepsPerCheck = 64

// stopped reports whether nothing more is to be compiled: the query is left, or the context has
// ended.
func (w *walker) stopped() bool {
	if w.steps++; w.ended == nil && w.steps%stepsPerCheck == 0 {
		w.ended = plan.Ended(w.ctx)
	}
	return w.ended != nil || w.left != nil
}

// facts are what the planner asks again and again of an expression and what is below it.
// They are found once, from the leaves up: asked of each level anew they would take time
// that grows with the square of the depth.
type facts struct {
	pos        posrange.PositionRange
	typ        parser.ValueType
	selects    bool    // there is a selector
	metadata   bool    // a function sets a type or unit, as info does if info series have one
	histogram  bool    // a function of classic histograms is called
	isConstant bool    // it is a literal number, however it is wrapped, or operators on such
	constant   float64 // its value
}

// learn finds the facts of e and of all that is below it.
func (w *walker) learn(e parser.Expr) *facts {
	f := &facts{}
	var below [2]*facts // of the first two children
	n := 0
	for child := range parser.ChildrenIter(e) {
		c := w.learn(child.(parser.Expr))
		f.selects, f.metadata, f.histogram = f.selects || c.selects, f.metadata || c.metadata, f.histogram || c.histogram
		if n < len(below) {
			below[n] = c
		}
		n++
	}
	w.facts[e] = f
	first, second := below[0], below[1]
	switch e := e.(type) {
	case *parser.BinaryExpr:
		f.pos, f.typ = posrange.PositionRange{Start: first.pos.Start, End: second.pos.End}, parser.ValueTypeVector
		if first.typ == parser.ValueTypeScalar && second.typ == parser.ValueTypeScalar {
			f.typ = parser.ValueTypeScalar
		}
		if op := vector.Named(e.Op.String()); op != nil && first.isConstant && second.isConstant {
			f.constant, f.isConstant = vector.ScalarFunc(op)(first.constant, second.constant), true
		}
		return f
	case *parser.UnaryExpr:
		f.pos, f.typ = posrange.PositionRange{Start: e.StartPos, End: first.pos.End}, first.typ
		if f.constant, f.isConstant = first.constant, first.isConstant; e.Op == parser.SUB {
			f.constant = -f.constant
		}
		return f
	case *parser.StepInvariantExpr:
		f.pos, f.typ, f.constant, f.isConstant = first.pos, first.typ, first.constant, first.isConstant
		return f
	case *parser.ParenExpr:
		f.pos, f.typ, f.constant, f.isConstant = e.PosRange, first.typ, first.constant, first.isConstant
		return f
	case *parser.SubqueryExpr:
		f.pos, f.typ = posrange.PositionRange{Start: first.pos.Start, End: e.EndPos}, parser.ValueTypeMatrix
		return f
	case *parser.NumberLiteral:
		f.constant, f.isConstant = e.Val, true
	case *parser.VectorSelector:
		f.selects = true
	case *parser.Call:
		switch n := vector.Called(e.Func.Name).Node.(type) {
		case *plan.Number:
			f.constant, f.isConstant = n.Value, true
		case *plan.Info:
			f.metadata = true
		case *plan.Relabel:
			label, ok := literals(e.Args[1:2])
			f.metadata = f.metadata || !ok || label[0] != model.MetricNameLabel && schema.IsMetadataLabel(label[0])
		}
		f.histogram = f.histogram || histogram.Named(e.Func.Name) != nil
	}
	f.pos, f.typ = e.PositionRange(), e.Type()
	return f
}

// literals returns the values of expressions that are literal strings.
func literals(es parser.Expressions) (values []string, ok bool) {
	for _, e := range es {
		s, ok := e.(*parser.StringLiteral)
		if !ok {
			return nil, false
		}
		values = append(values, s.Val)
	}
	return values, true
}

// origin is where an expression stands in the query, and its text.
func (w *walker) origin(e parser.Expr) plan.Origin { return plan.Origin{Pos: w.facts[e].pos, Text: e} }

// constant returns the value of a literal number, however it is wrapped, or of
// operators on such numbers.
func (w *walker) constant(e parser.Expr) (float64, bool) {
	f := w.facts[e]
	return f.constant, f.isConstant
}

const (
	reasonIdle = "it reads no samples"
	wholeStays = "the whole query stays with Prometheus's engine: "
)
