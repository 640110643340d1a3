package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// timestamp compiles timestamp and start_timestamp of a bare selector, which read the
// samples' own times; of anything else timestamp is the time of the step. Neither
// function cares whether the selector is anchored or smoothed.
func (w *walker) timestamp(e *parser.Call, sc scope) (plan.Node, string) {
	f := window.Timestamp
	if e.Func.Name == window.StartTimestamp.Name {
		f = window.StartTimestamp
	}
	v, ok := e.Args[0].(*parser.VectorSelector)
	switch {
	case !ok && f == window.Timestamp:
		return w.stepMapped(&plan.StepMap{Func: vector.StepTime, Pos: e.PosRange, Text: e}, e.Args, sc)
	case !ok:
		return nil, f.Name + " of anything but a selector is not on an executor yet"
	case v.Timestamp != nil && v.OriginalOffset != 0:
		return nil, f.Name + " of a selector with @ and an offset is evaluated by Prometheus's engine, which leaves the offset out"
	case f.StartTime && !w.env.StartTimestamps:
		return nil, "start_timestamp has no result where the engine does not use start timestamps"
	}
	scan, reason := w.scan(v, sc)
	if scan == nil {
		return nil, reason
	}
	return &plan.Window{Scan: scan, Func: f, Width: w.lookback, ArgPos: v.PosRange, Pos: e.PosRange, Text: e}, ""
}
