package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/window"
)

const reasonMetadata = "Prometheus's engine may remove the type or unit that is set within a subquery"

// losesMetadata reports whether e keeps names over a subquery in which a type or
// unit is set. Prometheus's engine remembers of series in a subquery that they are
// to lose their name, type and unit, and then takes away those that were set since.
// Stand-ins do not say so, so that all of it is for that engine.
func (w *walker) losesMetadata(e *parser.Call) bool {
	f := window.Named(e.Func.Name)
	return f != nil && f.KeepsName && !w.env.DelayedNameRemoval && w.of(e).metadata
}
