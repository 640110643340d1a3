package planner

import (
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// scope is what the walk knows on its way down.
type scope struct {
	grid       plan.Grid
	instant    bool // the evaluation ends when it starts
	outer      int  // see Part.Outer
	subqueries int  // enclosing subqueries
	moved      bool // an enclosing subquery has an offset or an @
	// asAbove says that the innermost subquery starts where what is above it does.
	asAbove bool
	refused string
	labels  bool // values become labels, so they must be Prometheus's to the last bit
	// anyName says that the names that series have here, and whether they are to lose
	// them in the end, do not matter above.
	anyName bool
	// leavesTypes says that types and units matter above nevertheless.
	leavesTypes bool
	// selectorRefused is why a bare selector here must stay: its parent reads
	// the selector itself.
	selectorRefused string
}

// forgetNames notes that the names below do not matter, nor types and units, if here is why.
func (sc *scope) forgetNames(here bool) {
	if here {
		sc.anyName, sc.leavesTypes = true, false
	}
}

// reasonAsAbove is about a quirk: Prometheus's engine adjusts the offset of what has an
// @ in a subquery only where that starts at another time than what is above it. Else
// it is what it was above, from which the offsets of the subqueries have been taken.
const reasonAsAbove = "something with @ lies in a subquery with an offset or @ that starts where the query does"

// subquery is the scope inside a subquery: the grid Prometheus's engine
// evaluates it on, which depends on the parent's.
func (w *walker) subquery(e *parser.SubqueryExpr, sc scope) scope {
	offset := e.OriginalOffset.Milliseconds()
	if e.Timestamp != nil {
		if sc.grid.Steps > 1 {
			// Prometheus's engine evaluates it for every step, but selects samples
			// up to the @ only.
			sc.refused = "a subquery with @ is read at every step"
		}
		if sc.moved && sc.asAbove {
			sc.refused = reasonAsAbove
		}
		offset += sc.grid.Start - *e.Timestamp
	}
	width := e.Range.Milliseconds()
	interval := e.Step.Milliseconds()
	if e.Step == 0 {
		interval = w.env.NoStepSubqueryInterval(width)
	}
	if interval <= 0 {
		sc.refused = "the subquery's step is not positive"
		interval = 1
	}
	end := sc.grid.End() - offset
	from := sc.grid.Start - offset - width
	start := interval * (from / interval)
	if start <= from {
		start += interval
	}
	sc.moved = sc.moved || e.Timestamp != nil || e.OriginalOffset != 0
	sc.asAbove = start == sc.grid.Start
	sc.subqueries++
	sc.outer = 0
	sc.grid = plan.NewGrid(start, end, interval)
	sc.instant = start == end
	if sc.grid.Steps > maxInnerSteps {
		sc.refused = "the subquery has too many steps for an executor, which holds values of all of them for some series at once"
	}
	return sc
}

// maxInnerSteps is the most steps of a subquery on an executor: 12 days at 1 s.
const maxInnerSteps = 1 << 20
