package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

// scalar compiles an expression that is a scalar.
func (w *walker) scalar(expr parser.Expr, sc scope) (plan.Node, string) {
	return w.try(expr, sc, true)
}

func (w *walker) scalarNode(expr parser.Expr, sc scope) (plan.Node, string) {
	if c, ok := w.constant(expr); ok {
		return &plan.Number{Value: c, Pos: w.pos(expr), Text: expr}, ""
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
		return &plan.Map{Func: vector.Named("neg"), Input: in, Pos: w.pos(e), Text: e}, ""
	case *parser.BinaryExpr:
		f := vector.Named(e.Op.String())
		if f == nil {
			break
		}
		return w.scalarOp(f, e.LHS, e.RHS, e, sc)
	case *parser.Call:
		switch e.Func.Name {
		case "time":
			return &plan.Time{Pos: e.PosRange}, ""
		case "scalar":
			sc.forgetNames(true)
			in, reason := w.compile(e.Args[0], sc)
			if in == nil {
				return nil, stays(reason)
			}
			return &plan.Scalar{Input: in, Pos: e.PosRange, Text: e}, ""
		}
		if f, ok := vector.ScalarFuncs[e.Func.Name]; ok {
			return w.scalarOp(f, e.Args[0], e.Args[1], e, sc)
		}
	}
	if pos := w.pos(expr); pos.End-pos.Start > maxReasonText {
		return nil, "a long scalar stays with Prometheus's engine"
	}
	return nil, "the scalar " + expr.String() + " stays with Prometheus's engine"
}

// scalarOp compiles f of two scalars, which e is.
func (w *walker) scalarOp(f *plan.MapFunc, lhs, rhs, e parser.Expr, sc scope) (plan.Node, string) {
	o := &plan.ScalarOp{Func: f, Pos: w.pos(e), Text: e}
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
	return &plan.Vector{Input: in, Pos: e.PosRange, Text: e}, ""
}
