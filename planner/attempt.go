package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

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
