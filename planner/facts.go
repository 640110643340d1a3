package planner

import (
	"math"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/plan"
)

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
		if first.isConstant && second.isConstant {
			f.constant, f.isConstant = operate(e.Op, first.constant, second.constant)
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
		f.constant, f.isConstant = math.Pi, e.Func.Name == "pi"
		f.metadata = f.metadata || setsMetadata(e)
		f.histogram = f.histogram || plan.Histograms[e.Func.Name] != nil
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

// constant returns the value of a literal number, however it is wrapped, or of
// operators on such numbers.
func (w *walker) constant(e parser.Expr) (float64, bool) {
	f := w.of(e)
	return f.constant, f.isConstant
}

// setsMetadata reports whether a function sets a type or unit.
func setsMetadata(call *parser.Call) bool {
	switch call.Func.Name {
	case "info":
		return true
	case "label_replace", "label_join":
		label, ok := literals(call.Args[1:2])
		return !ok || label[0] != model.MetricNameLabel && schema.IsMetadataLabel(label[0])
	}
	return false
}
