package cpuexec

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// collector is the sink of series that are not aggregated: it keeps every one
// that has a value.
type collector struct {
	n      int                     // series that there are, or 0 where that is not known
	labels func(int) labels.Labels // of a series in the result, from any goroutine
	rows   []plan.Row
	series []int32    // that each row is
	whole  []plan.Run // of all rows that have a value at every step
}

// together is the size in bytes of the values that a collector puts into one
// allocation: a few rows of many steps, or many of few.
const together = 64 << 10

// fewRows is the number of rows of values that stay where they are which are not worth
// another goroutine.
const fewRows = 256

func (c *collector) Consume(q *operator.Query, b *operator.Batch) {
	start := len(c.rows)
	values := c.note(b)
	series := c.series[start:]
	q.Charge(int64(len(series))*operator.RowBytes(0) + 8*int64(values))
	if c.whole == nil {
		c.whole = []plan.Run{{Len: int32(b.Steps)}}
	}
	// Few values do not keep much memory from others.
	b.Retained = b.Lent && 2*values >= b.N*b.Steps
	c.rows = c.rows[:len(c.series)]
	rows := c.rows[start:]
	n := max(1, together/(8*b.Steps))
	if b.Retained {
		n = max(n, fewRows)
	}
	parallel.While(q.WorkersFor(len(rows)*b.Steps), (len(rows)+n-1)/n, func(_, k int) bool {
		lo, hi := k*n, min((k+1)*n, len(rows))
		c.fill(b, rows[lo:hi], series[lo:hi])
		return true
	})
}

// note notes the series of a batch that have values, says how many values that are, and
// makes room for the rows.
func (c *collector) note(b *operator.Batch) (values int) {
	series := 0
	for i := range b.N {
		if b.Counts[i].Kept > 0 {
			series++
		}
	}
	if left := c.n - b.Lo; 2*series >= b.N && left > series {
		series = left // perhaps
	}
	if series > cap(c.rows)-len(c.rows) {
		c.rows = slices.Grow(c.rows, series)
		c.series = slices.Grow(c.series, series)
	}
	for i := range b.N {
		if kept := b.Counts[i].Kept; kept > 0 {
			c.series = append(c.series, int32(b.Lo+i))
			values += kept
		}
	}
	return values
}

// fill makes rows of series of a batch. Their values stay where they are, or are put
// together.
func (c *collector) fill(b *operator.Batch, rows []plan.Row, series []int32) {
	var room []float64
	if !b.Retained {
		size := 0
		for _, s := range series {
			size += b.Counts[int(s)-b.Lo].Kept
		}
		room = make([]float64, size)
	}
	for at, s := range series {
		i := int(s) - b.Lo
		in, kept := b.Row(i), b.Counts[i].Kept
		to := in.Values[:kept:kept]
		if !b.Retained {
			to, room = room[:kept:kept], room[kept:]
		}
		rows[at] = plan.Row{Labels: c.labels(int(s)), Values: to, Runs: c.whole}
		switch {
		case kept < b.Steps:
			rows[at].Runs = dense.Runs(in.Present, b.Steps)
			for _, run := range rows[at].Runs {
				to = to[copy(to, in.Values[run.First:run.First+run.Len]):]
			}
		case !b.Retained:
			copy(to, in.Values)
		}
	}
}

// aggregator is the sink of an aggregation.
type aggregator struct {
	ctx      context.Context
	node     *plan.Aggregate
	groups   groups
	acc      *accumulator
	steps    int
	first    []int32 // the first series with a value of each group, -1 for none
	firsts   []int32 // the same at each step, steps a group; nil if nobody asks
	offloads bool    // an accelerator computes its results
}

// newAggregator makes the sink of node. With ordered, it notes at each step which series of a
// group was the first with a value.
func newAggregator(node *plan.Aggregate, q *operator.Query, in input, ordered bool) *aggregator {
	a := &aggregator{ctx: q.Context, node: node, steps: q.Grid.Steps, groups: in.groups()}
	a.first = newFirst(len(a.groups.labels))
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
func (a *aggregator) TooLarge(maxSamples int) string {
	if tooManyCells(len(a.first), a.steps, maxSamples) {
		return reasonCells
	}
	return ""
}

func (a *aggregator) Owner() plan.Node { return a.node }

func (a *aggregator) Bytes() int64 {
	if a.offloads {
		return offloadedBytes(len(a.first), a.steps)
	}
	return accumulatorBytes(a.node.Func, len(a.first), a.steps) + 4*int64(len(a.firsts))
}

func (a *aggregator) Allocate() { a.acc = newAccumulator(a.node.Func, len(a.first), a.steps) }

func (a *aggregator) Consume(q *operator.Query, b *operator.Batch) {
	noteFirst(a.first, a.groups.of, b)
	for i := range b.N {
		if b.Counts[i].Kept > 0 {
			a.acc.reserve(int(a.groups.of[b.Lo+i]))
		}
	}
	q.SplitSteps(b, func(w0, w1 int) {
		for i := range b.N {
			if b.Counts[i].Kept > 0 {
				group, row := int(a.groups.of[b.Lo+i]), b.Row(i)
				if a.firsts != nil {
					a.noteFirsts(group, int32(b.Lo+i), row.Present, w0, w1)
				}
				a.acc.add(group, row, w0, w1)
			}
		}
	})
}

// order lists the groups that have a value, as they appear in results.
func (a *aggregator) order() []int { return byFirst(a.first) }

// rows returns the groups that have a value.
func (a *aggregator) rows() []plan.Row {
	order := a.order()
	out := make([]plan.Row, len(order))
	for i, g := range order {
		if a.ctx.Err() != nil {
			return nil
		}
		vals, rs := a.acc.group(g)
		out[i] = plan.Row{Labels: a.groups.labels[g], Values: vals, Runs: rs}
	}
	return out
}

// shared returns the series from the given one on by group, or nil: see groups.shared.
func (a *aggregator) shared(from, workers int) [][]int32 { return a.groups.shared(from, workers) }

// addSeries adds series i, whose group nobody else adds to meanwhile, with its values.
func (a *aggregator) addSeries(i int32, in dense.Row) {
	g := int(a.groups.of[i])
	if a.first[g] < 0 {
		a.first[g] = i
	}
	a.acc.reserve(g)
	if a.firsts != nil {
		a.noteFirsts(g, i, in.Present, 0, a.acc.words)
	}
	a.acc.add(g, in, 0, a.acc.words)
}

// fillRow writes a group to a row without values and returns how many it has.
func (a *aggregator) fillRow(group int, out dense.Row) (points int) { return a.acc.row(group, out) }
