// Package aggregate aggregates series to groups.
//
// Batches of rows flow into a sink: an Adder for operators that add value to value (cells.go has
// the arithmetic), a Selector for those that keep series (topk.go, limit.go), a Quantiler for
// quantile; count_values works on rows. Rows of groups come out, in the order of their first
// series with a value. Rows are added in the order of their series and every step is independent
// of the others, so additions happen in the order in which Prometheus's engine makes them, on any
// number of cores. An Offloadable sink may get its results from an accelerator instead.
//
// Start with Adder.Consume.
package aggregate

import (
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// Adder is the sink of an aggregation that adds value to value: sum, avg, min, max, count,
// group, stddev and stdvar.
type Adder struct {
	query    *operator.Query
	node     *plan.Aggregate
	Groups   operator.Groups
	state    *accumulator
	steps    int
	first    []int32 // the first series with a value of each group, -1 for none
	firsts   []int32 // the same at each step, steps a group; nil if nobody asks
	offloads bool    // an accelerator computes its results
}

// NewAdder makes the sink of node. With ordered, it notes at each step which series of a
// group was the first with a value.
func NewAdder(node *plan.Aggregate, q *operator.Query, in *operator.Series, ordered bool) *Adder {
	a := &Adder{query: q, node: node, steps: q.Grid.Steps, Groups: in.GroupsOf(q.Context, node)}
	a.first = newFirst(len(a.Groups.Labels))
	if ordered {
		a.firsts = make([]int32, len(a.first)*a.steps)
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

// TooLarge says why the aggregation's state would not fit, or nothing.
func (a *Adder) TooLarge(maxSamples int) string {
	if tooManyCells(len(a.first), a.steps, maxSamples) {
		return reasonCells
	}
	return ""
}

// Owner implements operator.Bounded.
func (a *Adder) Owner() plan.Node { return a.node }

// Bytes implements operator.Bounded.
func (a *Adder) Bytes() int64 {
	if a.offloads {
		return offloadedBytes(len(a.first), a.steps)
	}
	return accumulatorBytes(a.node.Func, len(a.first), a.steps) + 4*int64(len(a.firsts))
}

// Allocate implements operator.Bounded.
func (a *Adder) Allocate() { a.state = newAccumulator(a.node.Func, len(a.first), a.steps) }

// Consume implements operator.Sink.
func (a *Adder) Consume(q *operator.Query, b *operator.Batch) {
	noteFirst(a.first, a.Groups.Of, b)
	for i := range b.N {
		if b.Counts[i].Mapped > 0 {
			a.state.reserve(int(a.Groups.Of[b.Lo+i]))
		}
	}
	q.SplitGroups(b, len(a.first), func(part, parts, w0, w1 int) {
		for i := range b.N {
			if group := int(a.Groups.Of[b.Lo+i]); group%parts == part && b.Counts[i].Mapped > 0 {
				row := b.Row(i)
				if a.firsts != nil {
					a.noteFirsts(group, int32(b.Lo+i), row.Present, w0, w1)
				}
				a.state.add(group, row, w0, w1)
			}
		}
	})
}

// Order lists the groups that have a value, as they appear in results.
func (a *Adder) Order() []int { return byFirst(a.first) }

// Rows returns the groups that have a value.
func (a *Adder) Rows() []plan.Row {
	order := a.Order()
	out := make([]plan.Row, len(order))
	parallel.While(a.query.WorkersFor(len(order)*a.steps), len(order), func(_, i int) bool {
		g := order[i]
		vals, rs := a.state.group(g)
		out[i] = plan.Row{Labels: a.Groups.Labels[g], Values: vals, Runs: rs}
		return a.query.Context.Err() == nil
	})
	if a.query.Context.Err() != nil {
		return nil
	}
	return out
}

// GroupOf implements operator.GroupSink.
func (a *Adder) GroupOf() []int32 { return a.Groups.Of }

// AddSteps adds the steps of words [w0, w1) of series i, which nobody else adds to its group
// meanwhile. Who adds the first steps notes the group's first series.
func (a *Adder) AddSteps(i int32, in dense.Row, w0, w1 int) {
	g := int(a.Groups.Of[i])
	if w0 == 0 && a.first[g] < 0 {
		a.first[g] = i
	}
	a.state.reserve(g)
	if a.firsts != nil {
		a.noteFirsts(g, i, in.Present, w0, w1)
	}
	a.state.add(g, in, w0, w1)
}

// noteFirsts notes a series as the first of its group at those steps of words [w0,
// w1) at which it has a value and none before it had one.
func (a *Adder) noteFirsts(group int, series int32, present []uint64, w0, w1 int) {
	seen, of := a.state.seen[group*a.state.words:], a.firsts[group*a.steps:]
	for w := w0; w < w1; w++ {
		for p := present[w] &^ seen[w]; p != 0; p &= p - 1 {
			of[w<<6+bits.TrailingZeros64(p)] = series
		}
	}
}

// FirstSeries lists what was noted of rows, which are those of Rows.
func (a *Adder) FirstSeries(rows []plan.Row) [][]int32 {
	out := make([][]int32, len(rows))
	for i, g := range a.Order()[:len(rows)] {
		of := a.firsts[g*a.steps:]
		out[i] = make([]int32, 0, len(rows[i].Values))
		for _, run := range rows[i].Runs {
			out[i] = append(out[i], of[run.First:run.First+run.Len]...)
		}
	}
	return out
}

// FillRow writes a group to a row without values and returns how many it has.
func (a *Adder) FillRow(group int, out dense.Row) (points int) { return a.state.row(group, out) }
