package cpuexec

import (
	"context"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/reuse"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Ahead evaluates aggregations of a job over parts of what they read, before the rest has come. The
// aggregations are those whose results may be used again, since the same holds of both: the value
// of a step depends on nothing but the samples that it reads. What was evaluated is used where the
// selection turns out to have the very same chunks. It is safe for concurrent use.
type Ahead struct {
	x      *Executor
	job    Job
	leaves map[*plan.Aggregate]reuse.Leaf

	mu    sync.Mutex
	found map[*plan.Aggregate][]reuse.Ahead
}

// Ahead returns what evaluates aggregations of the job ahead, or nil if there are none. The job's
// budget is to be one for that alone, and the job has neither Select nor Results.
func (x *Executor) Ahead(job Job) *Ahead {
	a := &Ahead{x: x, leaves: reuse.Leaves(job.Node), found: map[*plan.Aggregate][]reuse.Ahead{}}
	for n, leaf := range a.leaves {
		if job.StartTimestamps && leaf.Window.ReadsStarts() || job.Grid.Steps < reuse.FewestSteps {
			delete(a.leaves, n)
		}
	}
	a.keepOnGrid(job.Node, true)
	if len(a.leaves) == 0 {
		return nil
	}
	a.job = job
	return a
}

// keepOnGrid drops the aggregations at and below n that are evaluated on other grids than the job's,
// as those of subqueries are. on says that n is evaluated on the job's.
func (a *Ahead) keepOnGrid(n plan.Node, on bool) {
	switch n := n.(type) {
	case *plan.Aggregate:
		if !on {
			delete(a.leaves, n)
		}
	case *plan.Subwindow, *plan.Once:
		on = false
	}
	for _, in := range n.Inputs() {
		a.keepOnGrid(in, on)
	}
}

// Reads reports whether one of the aggregations reads a selector.
func (a *Ahead) Reads(ms []*labels.Matcher) bool {
	for _, leaf := range a.leaves {
		if sameMatchers(leaf.Window.Scan.Matchers, ms) {
			return true
		}
	}
	return false
}

func sameMatchers(a, b []*labels.Matcher) bool {
	return slices.EqualFunc(a, b, func(a, b *labels.Matcher) bool {
		return a.Type == b.Type && a.Name == b.Name && a.Value == b.Value
	})
}

// Evaluate evaluates what reads a selector, of which p is a part, at the steps that read nothing
// else, and returns how many these are. Where that fails, nothing of it is kept: if there is
// something to say of it, the evaluation of the whole job will.
func (a *Ahead) Evaluate(ctx context.Context, ms []*labels.Matcher, p selection.Part) (steps int) {
	for n, leaf := range a.leaves {
		if !sameMatchers(leaf.Window.Scan.Matchers, ms) {
			continue
		}
		from, to := leaf.Within(a.job.Grid, p)
		if from == to {
			continue
		}
		if found, ok := a.evaluate(ctx, n, leaf, p, from, to); ok {
			a.mu.Lock()
			a.found[n] = append(a.found[n], found)
			a.mu.Unlock()
			steps += to - from
		}
	}
	return steps
}

func (a *Ahead) evaluate(ctx context.Context, n *plan.Aggregate, leaf reuse.Leaf, p selection.Part, from, to int) (found reuse.Ahead, ok bool) {
	r := newEvaluation(ctx, a.x, a.job)
	r.fetched = fetched{leaf.Window, p.Sel}
	defer r.Matrix.Release()
	src, err := r.fetchSource(leaf.Window, leaf.Maps)
	if err != nil || src.mayCollide || r.mayWarn(leaf.Window, src) {
		return found, false
	}
	v, err := r.evaluateSteps(n, leaf.Ordered, from, to)
	if err != nil || r.overlaps || len(r.Matrix.Annotations) > 0 {
		return found, false
	}
	r.Matrix.Work.Series = 0 // they are counted once
	return leaf.Keep(v, from, p, &plan.Matrix{Work: r.Matrix.Work, Peak: r.Matrix.Peak}), true
}

// of returns what was evaluated ahead of n and holds of sel, and adds to r what it took.
func (a *Ahead) of(r *evaluation, n *plan.Aggregate, sel *selection.Selection) (found []reuse.Ahead) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	all := a.found[n]
	delete(a.found, n)
	a.mu.Unlock()
	for i := range all {
		if all[i].HoldsOf(sel) {
			found = append(found, all[i])
			r.absorb(all[i].Took)
		}
	}
	return found
}
