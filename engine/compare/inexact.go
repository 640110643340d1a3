package compare

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// Inexact returns a function of the query whose values may be off by plan.Tolerance where the query
// does not ask for bits, or nothing, and whether the query goes on with such values, so that its own
// may be off by more.
func Inexact(expr parser.Expr) (function string, magnified bool) {
	parser.Inspect(expr, func(n parser.Node, above []parser.Node) error {
		call, ok := n.(*parser.Call)
		if !ok {
			return nil
		}
		if w := window.Named(call.Func.Name); w == nil || w.Exactness == plan.BitIdentical {
			return nil
		}
		function = call.Func.Name
		for _, a := range above {
			switch a.(type) {
			case *parser.ParenExpr, *parser.StepInvariantExpr:
			default:
				magnified = true
			}
		}
		return nil
	})
	return function, magnified
}

// HintOf says what to try where answers to a query differ that may do so by plan.Tolerance; empty of
// others.
func HintOf(query string) string {
	expr, err := parser.NewParser(parser.Options{EnableExperimentalFunctions: true}).ParseExpr(query)
	if err != nil {
		return ""
	}
	function, _ := Inexact(expr)
	if function == "" {
		return ""
	}
	return fmt.Sprintf("%s stays within 1e-12 of Prometheus's value, which what is made of it may magnify: --exact=bits asks for Prometheus's bits", function)
}
