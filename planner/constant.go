package planner

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"
)

// constant returns the value of a literal number, however it is wrapped, or of
// operators on such numbers.
func constant(e parser.Expr) (float64, bool) {
	switch e := e.(type) {
	case *parser.NumberLiteral:
		return e.Val, true
	case *parser.ParenExpr:
		return constant(e.Expr)
	case *parser.StepInvariantExpr:
		return constant(e.Expr)
	case *parser.Call:
		return math.Pi, e.Func.Name == "pi"
	case *parser.UnaryExpr:
		v, ok := constant(e.Expr)
		if e.Op == parser.SUB {
			v = -v
		}
		return v, ok
	case *parser.BinaryExpr:
		a, ok := constant(e.LHS)
		b, ok2 := constant(e.RHS)
		if !ok || !ok2 {
			return 0, false
		}
		return operate(e.Op, a, b)
	}
	return 0, false
}

// operate applies an operator to two numbers. A comparison yields 0 or 1.
func operate(op parser.ItemType, a, b float64) (v float64, ok bool) {
	truth := func(t bool) float64 {
		if t {
			return 1
		}
		return 0
	}
	switch op {
	case parser.ADD:
		return a + b, true
	case parser.SUB:
		return a - b, true
	case parser.MUL:
		return a * b, true
	case parser.DIV:
		return a / b, true
	case parser.MOD:
		return math.Mod(a, b), true
	case parser.POW:
		return math.Pow(a, b), true
	case parser.ATAN2:
		return math.Atan2(a, b), true
	case parser.EQLC:
		return truth(a == b), true
	case parser.NEQ:
		return truth(a != b), true
	case parser.GTR:
		return truth(a > b), true
	case parser.LSS:
		return truth(a < b), true
	case parser.GTE:
		return truth(a >= b), true
	case parser.LTE:
		return truth(a <= b), true
	}
	return 0, false
}
