package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// extension says which samples beside its windows function f reads of a range
// selector, or why it stays with Prometheus's engine.
func (w *walker) extension(f *plan.WindowFunc, m *parser.MatrixSelector) (plan.Extension, string) {
	v := m.VectorSelector.(*parser.VectorSelector)
	modifier, name := plan.Unmodified, ""
	switch {
	case m.Range%time.Millisecond != 0 || v.OriginalOffset%time.Millisecond != 0:
		return plan.Extension{}, "its range and its offset are no whole milliseconds, which Prometheus's engine rounds in several ways"
	case v.Anchored:
		modifier, name = plan.Anchored, "an anchored"
	case v.Smoothed:
		modifier, name = plan.Smoothed, "a smoothed"
	default:
		return plan.Extension{}, ""
	}
	if !slices.Contains(f.Modifiers, modifier) {
		return plan.Extension{}, fmt.Sprintf("%s of %s selector is an error that Prometheus's engine raises", f.Name, name)
	}
	return plan.NewExtension(modifier, w.lookback), ""
}
