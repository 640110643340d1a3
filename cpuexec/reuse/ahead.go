package reuse

import (
	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Ahead is what a leaf came to over a part of what it reads, before the rest had come.
type Ahead struct {
	Values     *results.Values
	Took       *plan.Matrix // what that took
	at         int          // step of the query of the first of the values
	first      int          // the first of them to be used
	part       *selection.Selection
	mint, maxt int64 // what is read of it, ms, both included
}

// The least that is evaluated ahead: so many steps, and so many times as long as one of them reads.
// The steps that read beyond a part are evaluated later, over all series.
const (
	leastAhead = 4
	leastParts = 8
)

// Within returns the steps of g, from from to to, the end excluded, to evaluate over a part: those
// that read nothing else, or none if they are too few.
func (l *Leaf) Within(g plan.Grid, p selection.Part) (from, to int) {
	r := l.reach()
	if r.Width > (p.MaxT-p.MinT)/leastParts {
		return 0, 0
	}
	from, to = r.Settled(g, &selection.Provenance{Settled: []selection.Settled{{From: p.MinT, To: p.MaxT + 1}}})
	if to-from <= leastAhead {
		return 0, 0
	}
	return from, to
}

// Keep makes what v, the values at the steps from from on of a query, came to over a part, which
// took is about, into memory of its own.
func (l *Leaf) Keep(v *results.Values, from int, p selection.Part, took *plan.Matrix) Ahead {
	a := Ahead{at: from, part: p.Sel, Took: took}
	if from > 0 {
		a.first = 1 // which samples are new at the first is not known
	}
	a.Values = results.Join(results.StepRange{Values: v, To: v.Grid.Steps})
	a.mint, a.maxt = l.Window.Reads(v.Grid)
	return a
}

// HoldsOf reports whether the values are those over all of sel: it has the very same chunks.
func (a *Ahead) HoldsOf(sel *selection.Selection) bool {
	return sel.SharesChunks(a.part, a.mint, a.maxt)
}
