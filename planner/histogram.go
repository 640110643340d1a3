package planner

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// histogram compiles a function of classic histograms.
func (w *walker) histogram(f *plan.HistogramFunc, e *parser.Call, sc scope) (plan.Node, string) {
	h := &plan.Histogram{
		Func: f, ArgPos: w.pos(e.Args[0]), InputPos: w.pos(e.Args[f.Args]), Pos: e.PosRange, Text: e,
		Merges: w.merges(e.PosRange),
	}
	if f.Name == "histogram_quantiles" {
		h.Label = e.Args[1].(*parser.StringLiteral).Val
		switch h.Label {
		case "":
			return nil, "a label without a name is for Prometheus's engine to complain of"
		case model.MetricNameLabel: // which that engine drops behind some functions over a subquery, and behind others not
			return nil, "histogram_quantiles that writes the name of the metric is not on an executor yet"
		}
		for _, a := range e.Args[2:] {
			c, ok := w.constant(a)
			if !ok {
				return nil, "histogram_quantiles with a parameter that is not a constant is not on an executor yet"
			}
			h.Args, h.ArgsPos = append(h.Args, c), append(h.ArgsPos, w.pos(a))
		}
	}
	constants := true
	for _, a := range e.Args[:f.Args] {
		c, ok := w.constant(a)
		constants = constants && ok
		h.Args = append(h.Args, c)
	}
	for i := 0; i < f.Args && !constants; i++ {
		n, reason := w.scalar(e.Args[i], sc)
		if n == nil {
			return nil, stays(reason)
		}
		h.ArgNodes = append(h.ArgNodes, n)
	}
	if w.of(e.Args[f.Args]).histogram { // that engine adds the notes of the inner one to those of the outer
		return nil, "a histogram function over another is evaluated by Prometheus's engine"
	}
	sc.selectorRefused = ""
	sc.forgetNames(true)
	var reason string
	if h.Input, reason = w.compile(e.Args[f.Args], sc); h.Input == nil {
		return nil, stays(reason)
	}
	return h, ""
}
