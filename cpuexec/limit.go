package cpuexec

import (
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
)

// checkMapped raises Prometheus's error if a map's input, its constants and its
// result are more samples than may be held at once. in and out are samples,
// series is the number of series that the input has at most at one step.
func (r *run) checkMapped(m *plan.Map, in, out, series int) error {
	if m.Func.Name == "neg" {
		return nil // changes its input in place
	}
	return r.checkSteps(m, m.Scalars, in, out, series)
}

// checkSteps raises Prometheus's error if the input of n, with so many constants
// beside it, and its result are more samples than may be held at once.
// Prometheus holds the step's own input beside them; where only that decides, it
// is left to decide.
func (r *run) checkSteps(n plan.Node, constants, in, out, series int) error {
	least := r.held + in + constants*r.job.Grid.Steps + out
	return r.checkHeld(n, least, least+series+constants)
}

// checkHeld raises Prometheus's error if n needs more samples at once than may
// be held: at least and at most so many.
func (r *run) checkHeld(n plan.Node, least, most int) error {
	r.m.Peak = max(r.m.Peak, least)
	switch limit := r.job.MaxSamples; {
	case limit <= 0 || most <= limit:
		return nil
	case least > limit:
		return promql.ErrTooManySamples("query execution")
	}
	return &plan.Declined{At: n, Reason: "it is so close to the sample limit that only Prometheus's engine can tell on which side"}
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
func (l *sampleLimit) add(c counts) bool {
	most := l.held + c.points
	if l.window {
		most = l.held + max(c.maxWindow, c.lastWindow+c.points)
	}
	l.held += c.points
	l.peak = max(l.peak, most)
	return l.max <= 0 || most <= l.max
}
