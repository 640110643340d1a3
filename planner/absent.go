package planner

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// absent compiles absent and absent_over_time.
func (w *walker) absent(e *parser.Call, sc scope) (plan.Node, string) {
	known, ok := absentLabels(e.Args[0])
	if !ok {
		return nil, e.Func.Name + " with several matchers of one label is evaluated by Prometheus's engine"
	}
	a := &plan.Absent{Labels: known, OverTime: e.Func.Name == "absent_over_time", Pos: e.PosRange, Text: e.String()}
	sc.selectorRefused = ""
	var reason string
	if a.OverTime {
		// The reason is the call's own, there being no expression in between.
		a.Input, reason = w.window(plan.Present, e, sc)
	} else if a.Input, reason = w.compile(e.Args[0], sc); a.Input == nil {
		reason = inputStays + reason
	}
	if a.Input == nil {
		return nil, reason
	}
	return a, ""
}

// absentLabels are the labels that a selector states by an equality matcher:
// what is known of a series that is not there. Anything but a bare selector
// states none. With several matchers of a label their order decides, which some
// storages change; it reports false then.
func absentLabels(e parser.Expr) (labels.Labels, bool) {
	var ms []*labels.Matcher
	switch e := e.(type) {
	case *parser.VectorSelector:
		ms = e.LabelMatchers
	case *parser.MatrixSelector:
		ms = e.VectorSelector.(*parser.VectorSelector).LabelMatchers
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	seen := map[string]bool{}
	for _, m := range ms {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if seen[m.Name] {
			return labels.EmptyLabels(), false
		}
		seen[m.Name] = true
		if m.Type == labels.MatchEqual {
			b.Set(m.Name, m.Value)
		}
	}
	return b.Labels(), true
}
