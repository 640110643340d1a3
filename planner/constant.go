package planner

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"
)

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
