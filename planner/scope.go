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
	refused    string
	labels     bool // values become labels, so they must be Prometheus's to the last bit
	// selectorRefused is why a bare selector here must stay: its parent reads
	// the selector itself.
	selectorRefused string
}

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
		if sc.subqueries > 0 {
			sc.refused = "a subquery with @ inside another subquery is evaluated by Prometheus's engine"
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
	sc.subqueries++
	sc.outer = 0
	sc.grid = plan.NewGrid(start, end, interval)
	sc.instant = start == end
	return sc
}
