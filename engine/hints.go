package engine

import (
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// reading is a window of a part, the grid that it is evaluated on, and what Prometheus's
// engine would tell the storage about its selector.
type reading struct {
	window *plan.Window
	grid   plan.Grid
	hints  *storage.SelectHints
}

// beside is the function and the grouping next to a selector.
type beside struct {
	function string
	by       bool
	grouping []string
}

// readingsOf are the windows of a part, found in one walk.
func readingsOf(p *planner.Part) []reading { return readings(p.Node, p.Grid, beside{}, nil) }

func readings(n plan.Node, g plan.Grid, above beside, found []reading) []reading {
	if w, ok := n.(*plan.Window); ok {
		found = append(found, reading{w, g, hintsFor(w, g, above)})
	}
	above = above.below(n)
	for _, in := range n.Inputs() {
		switch n := n.(type) {
		case *plan.Subwindow:
			found = readings(in, n.GridOf(in, g), above, found)
		case *plan.Once:
			found = readings(in, n.Grid(g), above, found)
		default:
			found = readings(in, g, above, found)
		}
	}
	return found
}

// below is what is next to a selector right below n.
func (a beside) below(n plan.Node) beside {
	switch x := n.(type) {
	case *plan.Aggregate:
		return beside{x.Func.Name, !x.Without, x.Grouping}
	case *plan.Histogram:
		return beside{function: x.Func.Name}
	case *plan.Absent:
		a.function = "absent"
		return a
	case *plan.Subwindow:
		return beside{function: x.Func.Name}
	case *plan.Relabel:
		return beside{function: x.Name}
	case *plan.Sort:
		return beside{function: x.Name}
	case *plan.Info:
		return beside{function: "info"}
	case *plan.Window, *plan.Once:
		return a
	}
	return beside{}
}

// hintsFor are what Prometheus's engine would tell the storage about the selector of window
// w, which has those above it, with the time range that is really read on grid g.
func hintsFor(w *plan.Window, g plan.Grid, above beside) *storage.SelectHints {
	h := &storage.SelectHints{Step: g.Interval, By: above.by, Grouping: above.grouping}
	h.Start, h.End = w.Reads(g)
	bare := w.Func == window.Last || w.Func == window.Interpolated // no function reads the selector itself
	if bare {
		h.Func = above.function
		return h
	}
	h.Func = w.Func.Name
	if !w.Func.Instant {
		h.Range = w.Width
	}
	return h
}
