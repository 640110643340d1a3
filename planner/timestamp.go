package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// timestamp compiles timestamp of a bare selector, which reads the samples' own
// times; of anything else it is the time of the step.
func (w *walker) timestamp(e *parser.Call, sc scope) (plan.Node, string) {
	v, ok := e.Args[0].(*parser.VectorSelector)
	if !ok {
		return nil, "timestamp of anything but a selector is not on an executor yet"
	}
	if v.Timestamp != nil && v.OriginalOffset != 0 {
		return nil, "timestamp of a selector with @ and an offset is evaluated by Prometheus's engine, which leaves the offset out"
	}
	scan, reason := w.scan(v, sc)
	if scan == nil {
		return nil, reason
	}
	return &plan.Window{Scan: scan, Func: plan.Timestamp, Width: w.lookback, ArgPos: v.PosRange, Pos: e.PosRange, Text: e.String()}, ""
}
