package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// histogram compiles a function of classic histograms.
func (w *walker) histogram(f *plan.HistogramFunc, e *parser.Call, sc scope) (plan.Node, string) {
	h := &plan.Histogram{
		Func: f, ArgPos: e.Args[0].PositionRange(), InputPos: e.Args[f.Args].PositionRange(), Pos: e.PosRange, Text: e.String(),
	}
	for _, a := range e.Args[:f.Args] {
		c, ok := constant(a)
		if !ok {
			return nil, reasonNotConstant(f.Name)
		}
		h.Args = append(h.Args, c)
	}
	if callsHistogram(e.Args[f.Args]) {
		return nil, "a histogram function over another is evaluated by Prometheus's engine"
	}
	sc.selectorRefused = ""
	var reason string
	if h.Input, reason = w.compile(e.Args[f.Args], sc); h.Input == nil {
		return nil, inputStays + reason
	}
	return h, ""
}

// callsHistogram reports whether a function of classic histograms is called in
// e. Prometheus's engine adds the notes of the inner one to those of the outer.
func callsHistogram(e parser.Expr) (found bool) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if c, ok := n.(*parser.Call); ok && plan.Histograms[c.Func.Name] != nil {
			found = true
		}
		return nil
	})
	return found
}
