package cpuexec

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/plan"
)

// collector is the sink of a window that is not aggregated: it keeps every
// series that has a value.
type collector struct {
	steps  int
	source *source
	rows   []plan.Row
}

func (c *collector) take(r *run, b *batch) {
	start := len(c.rows)
	at := make([]int, 0, b.n) // which series of the batch each new row is
	for i := range b.n {
		if b.counts[i].kept > 0 {
			l := c.source.labels[b.lo+i]
			if c.source.drops {
				l = dropNames(l)
			}
			c.rows = append(c.rows, plan.Row{Labels: l})
			r.take(rowBytes(b.counts[i].kept))
			at = append(at, i)
		}
	}
	parallel(r.x.workersFor(len(at)*b.steps), len(at), func(_, k int) bool {
		i := at[k]
		c.rows[start+k] = compact(b.row(i), b.steps, b.counts[i].kept, c.rows[start+k])
		return true
	})
}

// workersFor is the number of goroutines worth starting for so many values.
func (x *Executor) workersFor(values int) int {
	if values < inlineSamples {
		return 1
	}
	return x.workers
}

// aggregator is the sink of an aggregation.
type aggregator struct {
	node   *plan.Aggregate
	groups groups
	acc    *accumulator
	steps  int
	first  []int32 // the first series with a value of each group, -1 for none
	taken  int64   // bytes of the budget
}

func newAggregator(node *plan.Aggregate, r *run, n int, at func(int) labels.Labels) *aggregator {
	a := &aggregator{node: node, steps: r.job.Grid.Steps, groups: group(node, n, at)}
	a.first = make([]int32, len(a.groups.labels))
	for g := range a.first {
		a.first[g] = -1
	}
	return a
}

// maxCells bounds the memory of an aggregation's state where the query has no
// sample limit to bound it: 50 M groups × steps are 1.25 GB.
const maxCells = 50_000_000

const reasonCells = "its groups, at every step, would take more memory at once than the sample limit stands for"

// tooManyCells reports whether the state of so many groups at every step would
// not fit.
func tooManyCells(groups, steps, maxSamples int) bool {
	limit := maxCells
	if maxSamples > 0 {
		// A little room for small limits, whose state is small anyway.
		limit = min(limit, max(maxSamples, 1<<20))
	}
	return groups*steps > limit
}

// tooLarge says why the aggregation's state would not fit, or nothing.
func (a *aggregator) tooLarge(maxSamples int) string {
	if tooManyCells(len(a.first), a.steps, maxSamples) {
		return reasonCells
	}
	return ""
}

// open allocates the state.
func (a *aggregator) open(r *run) error {
	a.taken = accumulatorBytes(a.node.Func, len(a.first), a.steps)
	r.take(a.taken)
	if err := r.done(); err != nil {
		return err
	}
	a.acc = newAccumulator(a.node.Func, len(a.first), a.steps)
	return nil
}

func (a *aggregator) take(r *run, b *batch) {
	points := 0
	for i := range b.n {
		if g := a.groups.of[b.lo+i]; b.counts[i].kept > 0 && a.first[g] < 0 {
			a.first[g] = int32(b.lo + i)
		}
		points += b.counts[i].kept
	}
	// Stretches of whole bitmap words, so that no two goroutines share one.
	workers := min(r.x.workersFor(points), b.words)
	parallel(workers, workers, func(_, k int) bool {
		w0, w1 := k*b.words/workers, (k+1)*b.words/workers
		for i := range b.n {
			if b.counts[i].kept > 0 {
				a.acc.add(int(a.groups.of[b.lo+i]), b.row(i), w0, w1)
			}
		}
		return true
	})
}

// finish returns the groups that have a value, in the order in which their first
// series came, and gives back the memory of the state.
func (a *aggregator) finish(r *run) []plan.Row {
	rows := a.rows()
	r.take(rowsBytes(rows) - a.taken)
	a.acc = nil
	return rows
}

func (a *aggregator) rows() []plan.Row {
	order := make([]int, 0, len(a.first))
	for g, f := range a.first {
		if f >= 0 {
			order = append(order, g)
		}
	}
	slices.SortFunc(order, func(x, y int) int { return int(a.first[x] - a.first[y]) })
	out := make([]plan.Row, len(order))
	for i, g := range order {
		vals, rs := a.acc.group(g)
		out[i] = plan.Row{Labels: a.groups.labels[g], Values: vals, Runs: rs}
	}
	return out
}
