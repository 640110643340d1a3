package planner

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

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
			Pos: w.pos(e), Text: e,
		}, ""
	}
	return &plan.Binary{
		Func: f, LHS: lhs, RHS: rhs, Bool: e.ReturnBool, Matching: e.VectorMatching,
		Pos: w.pos(e), Text: e,
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
			Pos: w.pos(e), Text: e,
		}, vector, sc)
	}
	m := &plan.StepMap{Func: f, Vector: at, Bool: e.ReturnBool, Pos: w.pos(e), Text: e}
	return w.stepMapped(m, []parser.Expr{e.LHS, e.RHS}, sc)
}

// mapCall compiles a function of one vector and scalars.
func (w *walker) mapCall(f *plan.MapFunc, e *parser.Call, sc scope) (plan.Node, string) {
	m := &plan.Map{Func: f, Scalars: len(e.Args) - 1, Pos: e.PosRange, Text: e}
	for _, a := range e.Args[1:] {
		c, ok := w.constant(a)
		if !ok {
			return w.stepMapped(&plan.StepMap{Func: f, Pos: e.PosRange, Text: e}, e.Args, sc)
		}
		m.Args = append(m.Args, c)
	}
	if len(m.Args) < f.Args {
		m.Args = append(m.Args, f.Default)
	}
	if drops := vector.Of(f).Drops; drops != nil && drops(m.Args) {
		return w.stepMapped(&plan.StepMap{Func: f, Pos: e.PosRange, Text: e}, e.Args, sc)
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
