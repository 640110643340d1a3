package cpuexec

import (
	"context"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Ahead evaluates aggregations of a job over parts of what they read, before the rest has come. The
// aggregations are those whose results may be used again, since the same holds of both: the value
// of a step depends on nothing but the samples that it reads. What was evaluated is used where the
// selection turns out to have the very same chunks. A nil Ahead evaluates none.
type Ahead struct {
	x      *Executor
	job    Job
	leaves map[*plan.Window]*aheadLeaf
}

// aheadLeaf is an aggregation, and what it came to over parts, which is charged to the job's budget.
type aheadLeaf struct {
	*reusable
	found []partial
}

// partial is what a leaf came to over a part of what it reads.
type partial struct {
	values     *results.Values
	took       *plan.Matrix // what that took
	at         int          // step of the query of the first of the values
	first      int          // the first of them to be used
	part       *selection.Selection
	mint, maxt int64 // what is read of it, ms, both included
}

// Ahead returns what evaluates aggregations of the job ahead, or nil if there are none. The job has
// neither Select nor Results.
func (x *Executor) Ahead(job Job) *Ahead {
	a := &Ahead{x: x, job: job, leaves: map[*plan.Window]*aheadLeaf{}}
	for _, leaf := range reusables(job.Node) {
		if !job.StartTimestamps || !leaf.window.ReadsStarts() {
			a.leaves[leaf.window] = &aheadLeaf{reusable: leaf}
		}
	}
	if len(a.leaves) == 0 || job.Grid.Steps < fewestSteps {
		return nil
	}
	return a
}

// Reads reports whether one of the aggregations reads a window.
func (a *Ahead) Reads(w *plan.Window) bool { return a != nil && a.leaves[w] != nil }

// The least that is evaluated ahead, in steps and in multiples of the time that one step reads.
// The steps that read beyond a part are evaluated later, over all series.
const (
	leastAhead = 4
	leastParts = 8
)

// Evaluate evaluates what reads a window, of whose selection p is a part, at the steps that read
// nothing else, and returns how many these are. Where that fails, nothing of it is kept: if there is
// something to say of it, the evaluation of the whole job will.
func (a *Ahead) Evaluate(ctx context.Context, w *plan.Window, p selection.Part) (steps int) {
	leaf, used, kept := a.leaves[w], a.job.Budget.Used(), int64(0)
	all := []selection.Settled{{From: p.MinT, To: p.MaxT + 1}}
	from, to := leaf.reach.Settled(a.job.Grid, all, all)
	if to-from <= leastAhead || leaf.reach.Width > (p.MaxT-p.MinT)/leastParts {
		return 0
	}
	defer func() { _ = a.job.Budget.Charge(used + kept - a.job.Budget.Used()) }() // that it fails will show
	r := newEvaluation(ctx, a.x, a.job)
	defer r.Matrix.Release()
	r.fetched = fetched{w, p.Sel}
	src, err := r.fetchSource(w, leaf.maps)
	if err != nil || src.mayCollide || r.mayWarn(w, src) {
		return 0
	}
	v, err := r.evaluateSteps(leaf.reusable, from, to)
	if err != nil || r.overlaps || len(r.Matrix.Annotations) > 0 {
		return 0
	}
	r.Matrix.Work.Series = 0 // they are counted once
	found := partial{
		values: results.Join(results.StepRange{Values: v, To: v.Grid.Steps}), // in memory of its own
		took:   &plan.Matrix{Work: r.Matrix.Work, Peak: r.Matrix.Peak}, at: from, part: p.Sel,
	}
	if from > 0 {
		found.first = 1 // which samples are new at the first is not known
	}
	found.mint, found.maxt = w.Reads(v.Grid)
	leaf.found, kept = append(leaf.found, found), operator.RowsBytes(found.values.Rows)
	return to - from
}

// of returns what was evaluated ahead of what reads w and holds of sel, and adds to r what it took.
func (a *Ahead) of(r *evaluation, w *plan.Window, sel *selection.Selection) (found []partial) {
	if !a.Reads(w) {
		return nil
	}
	leaf := a.leaves[w]
	for _, one := range leaf.found {
		if sel.SharesChunks(one.part, one.mint, one.maxt) {
			found = append(found, one)
			r.absorb(one.took)
		}
		r.Charge(-operator.RowsBytes(one.values.Rows))
	}
	leaf.found = nil
	return found
}
