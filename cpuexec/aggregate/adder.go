// Package aggregate aggregates series to groups.
//
// Batches of rows flow into a sink: an Adder for operators that add value to value (adding.go has
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
	"slices"
	"sync"
	"sync/atomic"

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
	workers := a.query.WorkersFor(len(order) * a.steps)
	scratch := make([]dense.Row, workers)
	parallel.While(workers, len(order), func(worker, i int) bool {
		row := &scratch[worker]
		if row.Values == nil {
			*row = dense.New(a.steps)
		}
		clear(row.Present)
		points := a.FillRow(order[i], *row)
		out[i] = row.Compact(points, a.Groups.Labels[order[i]])
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

// accumulator holds the state of an aggregation: for every group and step a
// sum, its compensation and a count, as far as the operator needs them. Rows are
// added in series order and every step is independent of the others, so steps,
// not series, are split over the cores and each addition happens in the order in
// which Prometheus's engine makes it.
type accumulator struct {
	op    *plan.AggregateFunc
	steps int
	words int // of 64 steps
	// The cells of many groups take long to allocate, so that is done as series
	// come, some groups at a time.
	slabs []slab
	each  int      // groups a slab
	seen  []uint64 // bitmap, words a group
	// offloaded are results that an accelerator computed, and then all there is: steps a
	// group, Absent where there is no value.
	offloaded []float64
}

// slab is the cells of some groups.
type slab struct {
	made  sync.Once
	cells *cells
}

// slabCells is the number of cells above which a slab has one group alone: few, so that workers that
// begin with a group each make its cells at the same time, in memory that the runtime has at hand.
const slabCells = 1 << 12

func newAccumulator(op *plan.AggregateFunc, groups, steps int) *accumulator {
	a := &accumulator{op: op, steps: steps, words: (steps + 63) / 64, each: min(max(1, slabCells/max(steps, 1)), max(groups, 1))}
	a.seen = make([]uint64, groups*a.words)
	a.slabs = make([]slab, (groups+a.each-1)/a.each)
	return a
}

// reserve makes room for a group. It must be called before add.
func (a *accumulator) reserve(group int) {
	s := &a.slabs[group/a.each]
	s.made.Do(func() { s.cells = newCells(a.op, a.each*a.steps) })
}

// of returns the cells of a group and the index of the first of them.
func (a *accumulator) of(group int) (c *cells, base int) {
	return a.slabs[group/a.each].cells, group % a.each * a.steps
}

// accumulatorBytes is the memory of an accumulator and of the rows made of it.
func accumulatorBytes(op *plan.AggregateFunc, groups, steps int) int64 {
	a := newCells(op, 0)
	cell := int64(8) // of the result
	for _, s := range [][]float64{a.val, a.comp, a.n} {
		if s != nil {
			cell += 8
		}
	}
	if a.incr != nil {
		cell++
	}
	return int64(groups)*int64(steps)*cell + int64(groups)*operator.RowBytes(0)
}

// fewValues is how many values are as soon added one by one.
const fewValues = 4

// add adds the steps of words [w0, w1) of one series to its group.
func (a *accumulator) add(group int, r dense.Row, w0, w1 int) {
	cells, base := a.of(group)
	seen := a.seen[group*a.words : (group+1)*a.words]
	for w := w0; w < w1; w++ {
		// The common case: every step has a value and is not the first.
		if end := a.fullWords(seen, r.Present, w, w1); end > w {
			cells.full(base, w<<6, min(end<<6, a.steps), r.Values)
			w = end - 1
			continue
		}
		p, old := r.Present[w], seen[w]
		seen[w] |= p
		for p != 0 {
			b := bits.TrailingZeros64(p)
			n, k := bits.TrailingZeros64(^((p & old) >> b)), w<<6+b // so many that are not the first
			switch {
			case n == 0:
				cells.first(base+k, r.Values[k])
				n = 1
			case n < fewValues:
				for i := range n {
					cells.next(base+k+i, r.Values[k+i])
				}
			default:
				cells.full(base, k, k+n, r.Values)
			}
			p &^= (1<<n - 1) << b
		}
	}
}

// fullWords returns the end of the words from w on, below end, at all of whose steps
// there is a value, and was one before.
func (a *accumulator) fullWords(seen, present []uint64, w, end int) int {
	for ; w < end; w++ {
		all := ^uint64(0)
		if left := a.steps - w<<6; left < 64 {
			all = 1<<left - 1
		}
		if seen[w]&present[w] != all {
			break
		}
	}
	return w
}

// row writes a group to a dense row and returns the number of its values.
func (a *accumulator) row(g int, out dense.Row) (points int) {
	if a.offloaded != nil {
		return spread(a.offloaded[g*a.steps:(g+1)*a.steps], out)
	}
	cells, base := a.of(g)
	cells.results(base, out.Values)
	copy(out.Present, a.seen[g*a.words:])
	return dense.Count(out.Present)
}

// cells are the state of some groups, steps a group.
type cells struct {
	op   *adding
	val  []float64
	comp []float64 // of sum and avg the compensation, of deviations the mean
	n    []float64
	incr []bool // avg: the sum would have overflowed, val is a running mean
	// running says that one of incr is set: by whoever adds at that step, too.
	running atomic.Bool
}

func newCells(op *plan.AggregateFunc, n int) *cells {
	a := &cells{op: Of(op).adds}
	for _, column := range []struct {
		has bool
		of  *[]float64
	}{{a.op.val, &a.val}, {a.op.comp, &a.comp}, {a.op.n, &a.n}} {
		if column.has {
			*column.of = make([]float64, n)
		}
	}
	if a.op == mean {
		a.incr = make([]bool, n)
	}
	return a
}

// first starts a group at one step.
func (a *cells) first(c int, f float64) { a.op.first(a, c, f) }

// next adds a further value to a group at one step.
func (a *cells) next(c int, f float64) { a.op.next(a, c, f) }

// results writes the aggregates of consecutive cells, the first of which is c,
// to out. Those of cells without a value mean nothing.
func (a *cells) results(c int, out []float64) { a.op.results(a, c, out) }

// full adds the values of steps [lo, hi), none of which is the first of its group: what an
// aggregation does most.
func (a *cells) full(base, lo, hi int, vals []float64) { a.op.more(a, base+lo, base+hi, vals[lo:hi]) }

// noteFirst notes which series of a batch is the first with a value of its
// group; first has -1 for groups that have none yet.
func noteFirst(first, of []int32, b *operator.Batch) {
	for i := range b.N {
		if g := of[b.Lo+i]; b.Counts[i].Mapped > 0 && first[g] < 0 {
			first[g] = int32(b.Lo + i)
		}
	}
}

// newFirst is the list that noteFirst fills in, for so many groups.
func newFirst(groups int) []int32 {
	first := make([]int32, groups)
	for g := range first {
		first[g] = -1
	}
	return first
}

// byFirst lists the groups that have a value in the order in which their first
// series came, which is that of Prometheus's engine.
func byFirst(first []int32) []int {
	order := make([]int, 0, len(first))
	for g, f := range first {
		if f >= 0 {
			order = append(order, g)
		}
	}
	slices.SortFunc(order, func(x, y int) int { return int(first[x] - first[y]) })
	return order
}

// noteSeries notes the first series of each group that has a value.
func noteSeries(first, of []int32, has []bool) {
	for i, left := 0, len(first); i < len(has) && left > 0; i++ {
		if g := of[i]; has[i] && first[g] < 0 {
			first[g] = int32(i)
			left--
		}
	}
}
