package planner

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/plan"
)

const reasonMetadata = "Prometheus's engine may remove the type or unit that is set within a subquery"

// losesMetadata reports whether e keeps names over a subquery in which a type or
// unit is set. Prometheus's engine remembers of series in a subquery that they are
// to lose their name, type and unit, and then takes away those that were set since.
// Stand-ins do not say so, so that all of it is for that engine.
func (w *walker) losesMetadata(e *parser.Call) bool {
	f := plan.Windows[e.Func.Name]
	return f != nil && f.KeepsName && !w.env.DelayedNameRemoval && setsMetadata(e)
}

// setsMetadata reports whether e or what is below it is a function that sets a type
// or unit.
func setsMetadata(e parser.Node) bool {
	if call, ok := e.(*parser.Call); ok && (call.Func.Name == "label_replace" || call.Func.Name == "label_join") {
		label, ok := literals(call.Args[1:2])
		if !ok || label[0] != model.MetricNameLabel && schema.IsMetadataLabel(label[0]) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Collect(parser.ChildrenIter(e)), setsMetadata)
}
