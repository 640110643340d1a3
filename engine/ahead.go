package engine

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/engine/ahead"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// aheadOf is who evaluates a part while its samples are on their way. The zero value evaluates none.
type aheadOf struct {
	*ahead.Runner
	part  *planner.Part
	lease *memory.Lease
}

// beginAhead begins to evaluate p ahead, if it is a whole query: the order of its steps is nobody's
// business then. Statistics and GPUs are for those who evaluate all at once.
func (q *query) beginAhead(p *planner.Part) {
	if q.mode != Auto && q.mode != CPU || q.stats || !q.direct(p) {
		return
	}
	if a := q.accelerates(p); a != nil && a.suitsAny(p.Node) {
		return
	}
	o, f := &q.e.opts.Prometheus, q.fetches
	// Nobody waits for it, so it takes no memory from those who do wait.
	lease := q.e.opts.Memory.SpareLease(memory.Evaluation)
	of := q.e.cpu.Ahead(cpuexec.Job{
		Node: p.Node, Grid: p.Grid, Budget: operator.NewBudget(f.ctx, q.e.opts.MaxMemory, lease),
		MaxSamples: o.MaxSamples, DelayedNameRemoval: o.EnableDelayedNameRemoval,
		TypeAndUnitLabels: o.EnableTypeAndUnitLabels, StartTimestamps: o.UseStartTimestamps,
	})
	if of != nil {
		f.ahead = aheadOf{ahead.New(f.ctx, of, q.e.Turn), p, lease}
	}
}

// suitsAny reports whether a GPU may evaluate n or something below it.
func (a *accelerator) suitsAny(n plan.Node) bool {
	return a.suits(n) == "" || slices.ContainsFunc(n.Inputs(), a.suitsAny)
}
