package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

const reasonScalar = "a scalar is evaluated by Prometheus's engine unless it is an operand"

// scalar compiles an expression that is a scalar, which is not a part by itself.
func (w *walker) scalar(expr parser.Expr, sc scope) (plan.Node, string) {
	if c, ok := constant(expr); ok {
		return &plan.Number{Value: c, Pos: expr.PositionRange(), Text: expr.String()}, ""
	}
	if reason, ok := w.env.Excluded[expr.PositionRange()]; ok {
		return nil, reason
	}
	sc.selectorRefused = ""
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return w.scalar(e.Expr, sc)
	case *parser.UnaryExpr:
		in, reason := w.scalar(e.Expr, sc)
		if in == nil || e.Op == parser.ADD {
			return in, reason
		}
		return &plan.Map{Func: plan.Maps["neg"], Input: in, Pos: e.PositionRange(), Text: e.String()}, ""
	case *parser.BinaryExpr:
		f, ok := plan.Maps[e.Op.String()]
		if !ok {
			break
		}
		lhs, reason := w.scalar(e.LHS, sc)
		if lhs == nil {
			return nil, reason
		}
		rhs, reason := w.scalar(e.RHS, sc)
		if rhs == nil {
			return nil, reason
		}
		return &plan.ScalarOp{Func: f, LHS: lhs, RHS: rhs, Pos: e.PositionRange(), Text: e.String()}, ""
	case *parser.Call:
		switch e.Func.Name {
		case "time":
			return &plan.Time{Pos: e.PosRange}, ""
		case "scalar":
			in, reason := w.compile(e.Args[0], sc)
			if in == nil {
				return nil, inputStays + reason
			}
			return &plan.Scalar{Input: in, Pos: e.PosRange, Text: e.String()}, ""
		}
	}
	return nil, "the scalar " + expr.String() + " stays with Prometheus's engine"
}

// vector compiles a scalar made a vector.
func (w *walker) vector(e *parser.Call, sc scope) (plan.Node, string) {
	in, reason := w.scalar(e.Args[0], sc)
	if in == nil {
		return nil, inputStays + reason
	}
	return &plan.Vector{Input: in, Pos: e.PosRange, Text: e.String()}, ""
}

// constantVector compiles a constant made a vector, which Prometheus's engine
// evaluates once and repeats, and returns nil for anything else.
func (w *walker) constantVector(e parser.Expr) plan.Node {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return w.constantVector(e.Expr)
	case *parser.Call:
		if e.Func.Name != "vector" {
			break
		}
		if c, ok := constant(e.Args[0]); ok {
			n := &plan.Number{Value: c, Pos: e.Args[0].PositionRange(), Text: e.Args[0].String()}
			return &plan.Vector{Input: n, Pos: e.PosRange, Text: e.String()}
		}
	}
	return nil
}
