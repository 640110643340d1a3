package cpuexec

import (
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// checkMapped raises Prometheus's error if a map's input, its constants and its
// result are more samples than may be held at once. in and out are samples,
// series is the number of series that the input has at most at one step.
func (q *query) checkMapped(m *plan.Map, in, out, series int) error {
	if m.Func.Name == "neg" {
		return nil // changes its input in place
	}
	return q.checkSteps(m, m.Scalars, in, out, series)
}

// checkSteps raises Prometheus's error if the input of n, with so many constants
// beside it, and its result are more samples than may be held at once.
// Prometheus holds the step's own input beside them; where only that decides, it
// is left to decide.
func (q *query) checkSteps(n plan.Node, constants, in, out, series int) error {
	least := q.held + in + constants*q.grid.Steps + out
	return q.checkHeld(n, least, least+series+constants)
}

// checkHeld raises Prometheus's error if n needs more samples at once than may
// be held: at least and at most so many.
func (q *query) checkHeld(n plan.Node, least, most int) error {
	q.m.Peak = max(q.m.Peak, least)
	switch limit := q.maxSamples; {
	case limit <= 0 || most <= limit:
		return nil
	case least > limit:
		return promql.ErrTooManySamples("query execution")
	}
	return &plan.Declined{At: n, Reason: "it is so close to the sample limit that only Prometheus's engine can tell on which side"}
}

// releases reports whether Prometheus's engine, when it has evaluated n, counts as held no
// more than it did before and the result. The function info goes on to count its input and
// the info series, until something above it does so.
func releases(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Window, *plan.Relabel, *plan.Subwindow, *plan.Info:
		return false
	case *plan.Map:
		return n.Func.Name != "neg"
	}
	return true
}

// releasing notes what is held. What it returns sets that back.
func (q *query) releasing() (release func()) {
	held := q.held
	return func() { q.held = held }
}

// sampleLimit follows the number of samples that Prometheus's engine would hold
// while it evaluates series one after another: the points of the results so far
// and the samples in the current window.
type sampleLimit struct {
	max    int  // 0 means no limit
	window bool // a range function, which holds its window's samples too
	held   int
	peak   int
}

// add counts one more series and reports whether the limit still holds.
func (l *sampleLimit) add(c dense.Counts) bool {
	most := l.held + c.Points
	if l.window {
		most = l.held + max(c.MaxWindow, c.LastWindow+c.Points)
	}
	l.held += c.Points
	l.peak = max(l.peak, most)
	return l.max <= 0 || most <= l.max
}

// leak follows the same of a smoothed instant selector, of which Prometheus's engine
// holds each series' last window until what is above the selector is evaluated, but
// not the points of the result.
type leak struct {
	leaks      bool // whether the window is such a selector
	held, most int
}

// add counts one more series.
func (l *leak) add(c dense.Counts) {
	l.most = max(l.most, l.held+c.MaxWindow)
	l.held += c.LastWindow
}

// check raises Prometheus's error for a selector of so many points and series. How
// much is held above it is left to that engine where it decides.
func (l *leak) check(q *query, w *plan.Window, points, series int) error {
	if !l.leaks {
		return nil
	}
	return q.checkHeld(w, q.held+l.most, q.held+l.most+l.held+2*points+series)
}
