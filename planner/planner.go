// Package planner decides which subtrees of a query an executor evaluates.
//
// It walks the tree that Prometheus's engine has already preprocessed, top
// down, keeping track of the step grid each node is evaluated on, and takes the
// largest subtrees that the nodes of package plan can express.
package planner

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
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
	// Excluded holds expressions, by position, that an executor has declined
	// after seeing their data, and the reason.
	Excluded map[posrange.PositionRange]string
	// Merging holds expressions, by position, of which series of the result may be the
	// same.
	Merging map[posrange.PositionRange]bool
	// MergingAll says that Merging holds all expressions.
	MergingAll bool
	// Bits says that all values are to have Prometheus's bits.
	Bits bool
	// Refused is why all of the query stays with Prometheus's engine, if it does.
	Refused string
}

// Part is a subtree for an executor.
type Part struct {
	Slot *parser.Expr // where the subtree hangs in the statement's tree
	Expr parser.Expr  // the subtree
	Node plan.Node
	Grid plan.Grid
	// Outer is the number of the query's own steps that repeat the part's only
	// step, because it lies in a step-invariant expression; 0 if it does not.
	Outer int
	// InSubquery says that the part is evaluated on a subquery's grid.
	InSubquery bool
	Decision   *plan.Decision
	// Of has the decisions of the part's nodes.
	Of map[plan.Node]*plan.Decision
}

// Plan returns the parts of stmt's expression that an executor can evaluate,
// and for every node of it who evaluates it and why. The statement is not
// changed. When the context ends first, the error is that of Prometheus's engine.
func Plan(ctx context.Context, stmt *parser.EvalStmt, env Env) ([]*Part, *plan.Decision, error) {
	w := newWalker(ctx, stmt, env)
	root := w.plan(stmt)
	if w.ended != nil {
		return nil, nil, w.ended
	}
	return w.parts, root, nil
}

func newWalker(ctx context.Context, stmt *parser.EvalStmt, env Env) *walker {
	return &walker{
		ctx: ctx, env: env, lookback: stmt.LookbackDelta.Milliseconds(),
		facts: map[parser.Expr]*facts{}, failed: map[attempt]string{},
	}
}

func (w *walker) plan(stmt *parser.EvalStmt) *plan.Decision {
	start, end := millis(stmt.Start), millis(stmt.End)
	grid := plan.NewGrid(start, end, stmt.Interval.Milliseconds())
	return w.walk(&stmt.Expr, scope{grid: grid, instant: start == end, refused: w.env.Refused})
}

func millis(t time.Time) int64 { return t.UnixNano() / int64(time.Millisecond) }

type walker struct {
	ctx      context.Context
	env      Env
	lookback int64
	parts    []*Part
	facts    map[parser.Expr]*facts
	// failed are the reasons why expressions could not be compiled, so that they are not
	// compiled again on the way down.
	failed map[attempt]string
	steps  int   // compiled nodes and visited ones
	ended  error // of the context
}

func (w *walker) walk(slot *parser.Expr, sc scope) *plan.Decision {
	expr := *slot
	if w.stopped() {
		return &plan.Decision{}
	}
	var node plan.Node
	reason := reasonIdle
	if w.of(expr).selects {
		if node, reason = w.typed(expr, sc); node != nil && !plan.ReadsSamples(node) {
			node, reason, sc.refused = nil, reasonIdle, reasonIdle
		}
	}
	if node != nil {
		of := map[plan.Node]*plan.Decision{}
		d := describe(node, of)
		d.Steps = sc.grid.Steps
		w.parts = append(w.parts, &Part{
			Slot: slot, Expr: expr, Node: node, Grid: sc.grid,
			Outer: sc.outer, InSubquery: sc.subqueries > 0, Decision: d, Of: of,
		})
		return d
	}
	d := &plan.Decision{
		Text: expr, Pos: w.pos(expr), Kind: kind(expr), Executor: plan.OnPrometheus,
		Reason: reason, Steps: sc.grid.Steps, Own: ownReason(expr, reason),
		Idle: isIdle(reason),
	}
	w.children(d, expr, sc)
	return d
}

// typed compiles a scalar or a vector.
func (w *walker) typed(expr parser.Expr, sc scope) (plan.Node, string) {
	if w.of(expr).typ == parser.ValueTypeScalar {
		return w.scalar(expr, sc)
	}
	return w.compile(expr, sc)
}

// describe renders a planned node and those below it, and notes them in of.
func describe(n plan.Node, of map[plan.Node]*plan.Decision) *plan.Decision {
	d := &plan.Decision{Text: n, Pos: n.Range(), Executor: plan.OnCPU}
	of[n] = d
	switch n.(type) {
	case *plan.Aggregate:
		d.Kind = "aggregate"
	case *plan.Map, *plan.StepMap:
		d.Kind = "map"
	case *plan.Subwindow:
		d.Kind = "subquery window"
	case *plan.Histogram:
		d.Kind = "histogram"
	case *plan.Absent:
		d.Kind = "absent"
	case *plan.Window:
		d.Kind = "window"
	case *plan.Binary:
		d.Kind = "binary"
	case *plan.Set:
		d.Kind = "set"
	case *plan.Relabel:
		d.Kind = "labels"
	case *plan.Sort:
		d.Kind = "sort"
	case *plan.Once:
		d.Kind = "step invariant"
	case *plan.Nothing, *plan.Failure:
		d.Kind = "constant"
	case *plan.Info:
		d.Kind = "info"
	default:
		d.Kind = "scalar"
	}
	for _, in := range n.Inputs() {
		d.Children = append(d.Children, describe(in, of))
	}
	if a, ok := n.(*plan.Absent); ok && a.OverTime {
		// The window below it is no expression of its own.
		d.Children = d.Children[0].Children
	}
	return d
}

// children walks what hangs below a node that stays with Prometheus's engine.
func (w *walker) children(d *plan.Decision, expr parser.Expr, sc scope) {
	sc.selectorRefused = ""
	down := func(slot *parser.Expr, sc scope) { d.Children = append(d.Children, w.walk(slot, sc)) }
	switch e := expr.(type) {
	case *parser.ParenExpr:
		down(&e.Expr, sc)
	case *parser.UnaryExpr:
		down(&e.Expr, sc)
	case *parser.BinaryExpr:
		down(&e.LHS, sc)
		down(&e.RHS, sc)
	case *parser.AggregateExpr:
		if e.Param != nil {
			down(&e.Param, sc)
		}
		f := aggregate.Named(e.Op.String())
		sc.labels = sc.labels || f != nil && f.Labels
		down(&e.Expr, sc)
	case *parser.StepInvariantExpr:
		if sc.outer == 0 {
			sc.outer = sc.grid.Steps
		}
		sc.grid.Steps = min(sc.grid.Steps, 1)
		sc.instant = true
		down(&e.Expr, sc)
	case *parser.SubqueryExpr:
		down(&e.Expr, w.subquery(e, sc))
	case *parser.Call:
		c := vector.Called(e.Func.Name)
		if _, ok := c.Node.(*plan.Info); ok {
			w.insideInfo(d, e, sc)
			return
		}
		if c.ReadsSelector {
			sc.selectorRefused = e.Func.Name + "() reads the selector itself"
		}
		if w.losesMetadata(e) {
			sc.refused = reasonMetadata
		}
		for i := range e.Args {
			down(&e.Args[i], sc)
		}
	}
}

// ownReason reports whether a node that stays with Prometheus's engine does so
// for a reason of its own.
func ownReason(e parser.Expr, reason string) bool {
	switch e.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral, *parser.StepInvariantExpr, *parser.ParenExpr, *parser.MatrixSelector, *parser.SubqueryExpr:
		return false
	}
	return !isIdle(reason) && !strings.HasPrefix(reason, inputStays)
}

func kind(e parser.Expr) string {
	switch e.(type) {
	case *parser.VectorSelector:
		return "selector"
	case *parser.MatrixSelector:
		return "range selector"
	case *parser.Call:
		return "call"
	case *parser.AggregateExpr:
		return "aggregate"
	case *parser.BinaryExpr:
		return "binary"
	case *parser.SubqueryExpr:
		return "subquery"
	case *parser.StepInvariantExpr:
		return "step invariant"
	case *parser.NumberLiteral, *parser.StringLiteral:
		return "constant"
	}
	return "expression"
}

// attempt is what compiling an expression depends on.
type attempt struct {
	expr   parser.Expr
	scope  scope
	scalar bool
}

// try compiles an expression. What failed below a parent is asked for again when the parent
// stays with Prometheus's engine and its children are walked, and then fails at once: so a
// node is compiled a fixed number of times, however deep it is.
func (w *walker) try(expr parser.Expr, sc scope, scalar bool) (plan.Node, string) {
	if w.stopped() {
		return nil, reasonStopped
	}
	a := attempt{expr, sc, scalar}
	a.scope.outer, a.scope.subqueries = 0, 0 // these matter to parts alone
	if len(w.failed) > 0 {
		if reason, ok := w.failed[a]; ok {
			return nil, reason
		}
	}
	compile := w.vectorNode
	if scalar {
		compile = w.scalarNode
	}
	n, reason := compile(expr, sc)
	if n == nil {
		w.failed[a] = reason
	}
	return n, reason
}

const (
	reasonStopped = "planning was stopped"
	// stepsPerCheck is the number of nodes after which the context is looked at again.
	stepsPerCheck = 64
)

// stopped reports whether the context has ended, at which planning ends as soon as it can.
func (w *walker) stopped() bool {
	if w.steps++; w.ended == nil && w.steps%stepsPerCheck == 0 {
		w.ended = plan.Ended(w.ctx)
	}
	return w.ended != nil
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
	f.ofNode(e, below)
	w.facts[e] = f
	return f
}

// ofNode adds what e itself says to what is below it.
func (f *facts) ofNode(e parser.Expr, below [2]*facts) {
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
		return
	case *parser.UnaryExpr:
		f.pos, f.typ = posrange.PositionRange{Start: e.StartPos, End: first.pos.End}, first.typ
		if f.constant, f.isConstant = first.constant, first.isConstant; e.Op == parser.SUB {
			f.constant = -f.constant
		}
		return
	case *parser.StepInvariantExpr:
		f.pos, f.typ, f.constant, f.isConstant = first.pos, first.typ, first.constant, first.isConstant
		return
	case *parser.ParenExpr:
		f.pos, f.typ, f.constant, f.isConstant = e.PosRange, first.typ, first.constant, first.isConstant
		return
	case *parser.SubqueryExpr:
		f.pos, f.typ = posrange.PositionRange{Start: first.pos.Start, End: e.EndPos}, parser.ValueTypeMatrix
		return
	case *parser.NumberLiteral:
		f.constant, f.isConstant = e.Val, true
	case *parser.VectorSelector:
		f.selects = true
	case *parser.Call:
		if n, ok := vector.Called(e.Func.Name).Node.(*plan.Number); ok {
			f.constant, f.isConstant = n.Value, true
		}
		f.metadata = f.metadata || setsMetadata(e)
		f.histogram = f.histogram || histogram.Named(e.Func.Name) != nil
	}
	f.pos, f.typ = e.PositionRange(), e.Type()
}

// of returns the facts of an expression of the query.
func (w *walker) of(e parser.Expr) *facts {
	if f, ok := w.facts[e]; ok {
		return f
	}
	return w.learn(e)
}

// pos is where an expression stands in the query.
func (w *walker) pos(e parser.Expr) posrange.PositionRange { return w.of(e).pos }

// origin is where an expression stands in the query, and its text.
func (w *walker) origin(e parser.Expr) plan.Origin { return plan.Origin{Pos: w.pos(e), Text: e} }

// constant returns the value of a literal number, however it is wrapped, or of
// operators on such numbers.
func (w *walker) constant(e parser.Expr) (float64, bool) {
	f := w.of(e)
	return f.constant, f.isConstant
}

// setsMetadata reports whether a function sets a type or unit.
func setsMetadata(call *parser.Call) bool {
	switch vector.Called(call.Func.Name).Node.(type) {
	case *plan.Info:
		return true
	case *plan.Relabel:
		label, ok := literals(call.Args[1:2])
		return !ok || label[0] != model.MetricNameLabel && schema.IsMetadataLabel(label[0])
	}
	return false
}

const (
	reasonIdle   = "it reads no samples"
	reasonNoStep = "it is evaluated at no step"
	reasonScalar = "a scalar is no vector"

	inputStays = "its input stays with Prometheus's engine: "
	// maxReasonText is the most bytes of an expression that is printed in a reason.
	maxReasonText = 200
)

// deepReason is how the reasons of nodes begin that are far above the one that is the cause.
// Those of the nodes above them do not grow any more.
var deepReason = strings.Repeat(inputStays, 8)

// stays is the reason of a node whose input stays for a reason.
func stays(reason string) string {
	if strings.HasPrefix(reason, deepReason) {
		return reason
	}
	return inputStays + reason
}

// isIdle reports whether a reason is that there is nothing to evaluate.
func isIdle(reason string) bool { return reason == reasonIdle || reason == reasonNoStep }
