package operator

import (
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// CheckSteps raises Prometheus's error if the input of n, with the constants
// beside it, and its result are more samples than may be held at once.
// Prometheus holds the step's own input beside them; where only that decides, it
// is left to decide.
func (q *Query) CheckSteps(n plan.Node, constants, in, out, series int) error {
	least := q.Held + in + constants*q.Grid.Steps + out
	return q.CheckHeld(n, least, least+series+constants)
}

// CheckHeld raises Prometheus's error if n needs more samples at once than may
// be held: it needs from least to most.
func (q *Query) CheckHeld(n plan.Node, least, most int) error {
	q.Matrix.Peak, q.Matrix.PeakAtMost = max(q.Matrix.Peak, least), max(q.Matrix.PeakAtMost, most)
	switch limit := q.MaxSamples; {
	case limit <= 0 || most <= limit:
		return nil
	case least > limit:
		return promql.ErrTooManySamples("query execution")
	}
	return &plan.Declined{At: n, Reason: "it is so close to the sample limit that only Prometheus's engine can tell on which side"}
}

// maxCells bounds the memory of an aggregation's state where the query has no
// sample limit to bound it: 50 M groups × steps are 1.25 GB.
const maxCells = 50_000_000

// CheckCells declines n if its state would not fit; cells is the groups of all steps together.
func (q *Query) CheckCells(n plan.Node, cells int) error {
	limit := maxCells
	if q.MaxSamples > 0 {
		// A little room for small limits, whose state is small anyway.
		limit = min(limit, max(q.MaxSamples, 1<<20))
	}
	if cells <= limit {
		return nil
	}
	return &plan.Declined{At: n, Reason: "its groups, at every step, would take more memory at once than the sample limit stands for"}
}

// MayHold reports whether that number of samples is within the sample limit.
func (q *Query) MayHold(samples int) bool {
	return q.MaxSamples <= 0 || samples <= q.MaxSamples
}

// SampleLimit follows the number of samples that Prometheus's engine would hold
// while it evaluates series one after another: the points of the results so far
// and the samples in the current window.
type SampleLimit struct {
	Max    int  // 0 means no limit
	Window bool // a range function, which holds its window's samples too
	// Leaks says that it is a smoothed instant selector, of which Prometheus's engine holds each
	// series' last window until what is above the selector is evaluated, but not the points of the
	// result: see Check.
	Leaks bool
	Held  int
	Peak  int

	leaked, most int
}

// Add counts one more series and reports whether the limit still holds.
func (l *SampleLimit) Add(c dense.Counts) bool {
	most := l.Held + c.Points
	if l.Leaks {
		l.most = max(l.most, l.leaked+c.MaxWindow)
		l.leaked += c.LastWindow
		l.Held = most
		return true
	}
	if l.Window {
		most = l.Held + max(c.MaxWindow, c.LastWindow+c.Points)
	}
	l.Held += c.Points
	l.Peak = max(l.Peak, most)
	return l.Max <= 0 || most <= l.Max
}

// Append adds the next series, which another limit without a maximum has counted from nothing held, and
// reports whether the limit still holds. Neither leaks.
func (l *SampleLimit) Append(next SampleLimit) bool {
	l.Held, l.Peak = l.Held+next.Held, max(l.Peak, l.Held+next.Peak)
	return l.Max <= 0 || l.Peak <= l.Max
}

// Check raises Prometheus's error for a selector that leaks, by its points and series. How
// much is held above it is left to that engine where it decides.
func (l *SampleLimit) Check(q *Query, w plan.Node, points, series int) error {
	return q.CheckHeld(w, q.Held+l.most, q.Held+l.most+l.leaked+2*points+series)
}
