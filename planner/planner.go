// Package planner decides which subtrees of a query an executor evaluates.
//
// It walks the tree that Prometheus's engine has already preprocessed, top
// down, keeping track of the step grid each node is evaluated on, and takes the
// largest subtrees that the nodes of package plan can express.
package planner

import (
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/promwarp/promwarp/plan"
)

// Env is what a plan depends on besides the query.
type Env struct {
	// NoStepSubqueryInterval is the step in ms of a subquery that states none.
	NoStepSubqueryInterval func(rangeMillis int64) int64
	// DelayedNameRemoval says that metric names are removed when the query ends.
	DelayedNameRemoval bool
	// Excluded holds expressions, by position, that an executor has declined
	// after seeing their data, and the reason.
	Excluded map[posrange.PositionRange]string
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
// changed.
func Plan(stmt *parser.EvalStmt, env Env) ([]*Part, *plan.Decision) {
	w := walker{env: env, lookback: stmt.LookbackDelta.Milliseconds()}
	start, end := millis(stmt.Start), millis(stmt.End)
	grid := plan.NewGrid(start, end, stmt.Interval.Milliseconds())
	root := w.walk(&stmt.Expr, scope{grid: grid, instant: start == end})
	return w.parts, root
}

func millis(t time.Time) int64 { return t.UnixNano() / int64(time.Millisecond) }

type walker struct {
	env      Env
	lookback int64
	parts    []*Part
}

func (w *walker) walk(slot *parser.Expr, sc scope) *plan.Decision {
	expr := *slot
	node, reason := w.compile(expr, sc)
	if node != nil && !plan.ReadsSamples(node) {
		node, reason = nil, "it reads no samples"
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
		Expr: expr.String(), Kind: kind(expr), Executor: plan.OnPrometheus,
		Reason: reason, Steps: sc.grid.Steps, Own: ownReason(expr, reason),
	}
	w.children(d, expr, sc)
	return d
}

// describe renders a planned node and those below it, and notes them in of.
func describe(n plan.Node, of map[plan.Node]*plan.Decision) *plan.Decision {
	d := &plan.Decision{Expr: n.String(), Executor: plan.OnCPU}
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
		sc.labels = sc.labels || e.Op == parser.COUNT_VALUES
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
		switch e.Func.Name {
		case "info":
			sc.refused = "info() selects series of its own from what its arguments select"
		case "absent", "timestamp", "start_timestamp", "absent_over_time":
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
	case *parser.NumberLiteral, *parser.StringLiteral, *parser.StepInvariantExpr, *parser.ParenExpr, *parser.MatrixSelector:
		return false
	}
	return !strings.HasPrefix(reason, inputStays)
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
