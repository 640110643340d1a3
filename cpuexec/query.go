package cpuexec

import (
	"context"

	"github.com/promwarp/promwarp/plan"
)

// query is what all operators of a query need: its steps, its limits, and where they note what
// it took and what there is to say of it.
type query struct {
	ctx     context.Context
	grid    plan.Grid
	workers int // goroutines

	budget             *Budget
	maxSamples         int  // Prometheus's limit on samples held at once; 0 means none
	delayedNameRemoval bool // metric names are removed when the query ends, not before

	m *plan.Matrix
	// held is the number of samples that Prometheus's engine would hold besides
	// those of the node being evaluated.
	held int
}

// newQuery is a query without limits that is evaluated by so many goroutines.
func newQuery(ctx context.Context, g plan.Grid, workers int) *query {
	return &query{ctx: ctx, grid: g, workers: workers, m: &plan.Matrix{
		Grid: g, SamplesAtStep: make([]int64, g.Steps), NewSamplesAtStep: make([]int64, g.Steps),
	}}
}

// workersFor is the number of goroutines worth starting for so many values.
func (q *query) workersFor(values int) int { return workersFor(q.workers, values) }

// note adds a warning or an info to the result.
func (q *query) note(err error) { q.m.Annotations.Add(err) }

// done returns Prometheus's error for a query whose context has ended, and a
// *MemoryError for one that needs more memory than it may take.
func (q *query) done() error {
	if err := plan.Ended(q.ctx); err != nil {
		return err
	}
	return q.budget.Take(0)
}
