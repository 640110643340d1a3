package planner

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// absent compiles absent and absent_over_time.
func (w *walker) absent(e *parser.Call, sc scope) (plan.Node, string) {
	known, ok := absentLabels(e.Args[0])
	if !ok {
		return nil, e.Func.Name + " with matchers of one label whose order decides is evaluated by Prometheus's engine"
	}
	a := &plan.Absent{Labels: known, OverTime: e.Func.Name == "absent_over_time", Pos: e.PosRange, Text: e}
	sc.selectorRefused = ""
	var reason string
	if a.OverTime {
		// The reason is the call's own, there being no expression in between.
		a.Input, reason = w.window(window.Present, e, sc)
	} else if a.Input, reason = w.compile(e.Args[0], sc); a.Input == nil {
		reason = stays(reason)
	}
	if a.Input == nil {
		return nil, reason
	}
	return a, ""
}

// absentLabels are the labels that a selector states by an equality matcher:
// what is known of a series that is not there. Anything but a bare selector
// states none.
//
// Of several matchers of a label the last one says whether the label is known: one for
// equality, if it is the only such. A storage may have changed their order by then:
// Prometheus's own puts what is taken away from the rest last. Where that makes a
// difference, absentLabels reports false.
func absentLabels(e parser.Expr) (labels.Labels, bool) {
	var ms []*labels.Matcher
	switch e := e.(type) {
	case *parser.VectorSelector:
		ms = e.LabelMatchers
	case *parser.MatrixSelector:
		ms = e.VectorSelector.(*parser.VectorSelector).LabelMatchers
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	seen := map[string][]*labels.Matcher{}
	for _, m := range ms {
		if m.Name != model.MetricNameLabel {
			seen[m.Name] = append(seen[m.Name], m)
		}
	}
	for name, of := range seen {
		last, rest := of[len(of)-1], of[:len(of)-1]
		if last.Type != labels.MatchEqual || slices.ContainsFunc(rest, isEqual) {
			continue
		}
		if slices.ContainsFunc(rest, func(m *labels.Matcher) bool { return m.Matches("") }) {
			return labels.EmptyLabels(), false
		}
		b.Set(name, last.Value)
	}
	return b.Labels(), true
}

func isEqual(m *labels.Matcher) bool { return m.Type == labels.MatchEqual }
