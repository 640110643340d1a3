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
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
)

// Adder is the sink of an aggregation that adds value to value: sum, avg, min, max, count,
// group, stddev and stdvar. It holds for every group and step a sum, its compensation and a count,
// as far as the operator needs them.
type Adder struct {
	members
	query    *operator.Query
	op       *adding
	firsts   []int32 // the first series with a value at each step, steps a group; nil if not asked for
	offloads bool    // an accelerator computes its results

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

// NewAdder makes the sink of node. With ordered, it notes at each step which series of a
// group was the first with a value.
func NewAdder(node *plan.Aggregate, q *operator.Query, in *operator.Series, ordered bool) *Adder {
	a := &Adder{members: newMembers(node, q, in), query: q, op: Of(node.Func).adds, words: (q.Grid.Steps + 63) / 64}
	if ordered {
		a.firsts = make([]int32, len(a.first)*a.steps)
	}
	return a
}

// Size implements operator.Bounded. The memory is that of the rows, too.
func (a *Adder) Size() (n plan.Node, cells int, bytes int64) {
	cells = len(a.first) * a.steps
	cell := int64(8)
	if !a.offloads {
		cell = 1 + 8*int64(a.op.columns)
	}
	return a.node, cells, int64(cells)*cell + int64(len(a.first))*operator.RowBytes(a.steps) + 4*int64(len(a.firsts))
}

// slab is the cells of some groups.
type slab struct {
	made  sync.Once
	cells *cells
}

// slabCells is the number of cells above which a slab has one group alone: few, so that workers that
// begin with a group each make its cells at the same time, in memory that the runtime has at hand.
const slabCells = 1 << 12

// Allocate implements operator.Bounded.
func (a *Adder) Allocate() {
	groups := len(a.first)
	a.each = min(max(1, slabCells/max(a.steps, 1)), max(groups, 1))
	a.seen = make([]uint64, groups*a.words)
	a.slabs = make([]slab, (groups+a.each-1)/a.each)
}

// Consume implements operator.Sink.
func (a *Adder) Consume(q *operator.Query, b *operator.Batch) {
	q.SplitGroups(b, len(a.first), func(part, parts, w0, w1 int) {
		for i := range b.N {
			if int(a.groups.Of[b.Lo+i])%parts == part && b.Counts[i].Mapped > 0 {
				a.AddSteps(int32(b.Lo+i), b.Row(i), w0, w1)
			}
		}
	})
}

// GroupOf implements operator.GroupSink.
func (a *Adder) GroupOf() []int32 { return a.groups.Of }

// AddSteps adds the steps of words [w0, w1) of series i, which no other goroutine adds to its group
// meanwhile. Who adds the first steps notes the group's first series.
func (a *Adder) AddSteps(i int32, in dense.Row, w0, w1 int) {
	g := int(a.groups.Of[i])
	if w0 == 0 && a.first[g] < 0 {
		a.first[g] = i
	}
	cells, base := a.cellsOf(g)
	seen := a.seen[g*a.words : (g+1)*a.words]
	if a.firsts != nil {
		a.noteFirsts(g, i, in.Present, w0, w1)
	}
	for w := w0; w < w1; w++ {
		// The common case: every step has a value and is not the first.
		if end := a.fullWords(seen, in.Present, w, w1); end > w {
			lo, hi := w<<6, min(end<<6, a.steps)
			cells.op.more(cells, base+lo, base+hi, in.Values[lo:hi])
			w = end - 1
			continue
		}
		p, old := in.Present[w], seen[w]
		seen[w] |= p
		for p != 0 {
			b := bits.TrailingZeros64(p)
			n, k, add := bits.TrailingZeros64(^((p & old) >> b)), w<<6+b, cells.op.more // values in a row that are not the first
			if n == 0 {
				n, add = bits.TrailingZeros64(^((p &^ old) >> b)), cells.op.first
			}
			add(cells, base+k, base+k+n, in.Values[k:k+n])
			p &^= (1<<n - 1) << b
		}
	}
}

// cellsOf returns the cells of a group, which are made if need be, and the index of the first of them.
func (a *Adder) cellsOf(group int) (c *cells, base int) {
	s := &a.slabs[group/a.each]
	s.made.Do(func() { s.cells = newCells(a.op, a.each*a.steps) })
	return s.cells, group % a.each * a.steps
}

// fullWords returns the end of the words from w on, below end, at all of whose steps
// there is a value, and was one before.
func (a *Adder) fullWords(seen, present []uint64, w, end int) int {
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

// noteFirsts notes a series as the first of its group at those steps of words [w0,
// w1) at which it has a value and none before it had one.
func (a *Adder) noteFirsts(group int, series int32, present []uint64, w0, w1 int) {
	seen, of := a.seen[group*a.words:], a.firsts[group*a.steps:]
	for w := w0; w < w1; w++ {
		for p := present[w] &^ seen[w]; p != 0; p &= p - 1 {
			of[w<<6+bits.TrailingZeros64(p)] = series
		}
	}
}

// Offload implements Offloadable.
func (a *Adder) Offload(offloads bool) { a.offloads = offloads }

// Offloaded implements Offloadable.
func (a *Adder) Offloaded(x *offload.Results, has []bool) {
	a.noteSeries(has)
	a.offloaded = x.Values
}

// FirstSeries lists what was noted of rows, which are those of Rows.
func (a *Adder) FirstSeries(rows []plan.Row) [][]int32 {
	out := make([][]int32, len(rows))
	for i, g := range byFirst(a.first)[:len(rows)] {
		of := a.firsts[g*a.steps:]
		out[i] = make([]int32, 0, len(rows[i].Values))
		for _, run := range rows[i].Runs {
			out[i] = append(out[i], of[run.First:run.First+run.Len]...)
		}
	}
	return out
}

// Rows returns the groups that have a value.
func (a *Adder) Rows() []plan.Row {
	order := byFirst(a.first)
	out := make([]plan.Row, len(order))
	parallel.While(a.query.WorkersFor(len(order)*a.steps), len(order), func(_, i int) bool {
		g := order[i]
		if a.offloaded != nil {
			out[i] = sparse(a.offloaded[g*a.steps:(g+1)*a.steps], a.groups.Labels[g])
			return a.query.Context.Err() == nil
		}
		cells, base := a.cellsOf(g)
		seen := a.seen[g*a.words : (g+1)*a.words]
		values := make([]float64, dense.Count(seen))
		out[i] = plan.Row{Labels: a.groups.Labels[g], Values: values, Runs: dense.Runs(seen, a.steps)}
		for _, run := range out[i].Runs {
			cells.op.results(cells, base+int(run.First), values[:run.Len])
			values = values[run.Len:]
		}
		return a.query.Context.Err() == nil
	})
	if a.query.Context.Err() != nil {
		return nil
	}
	return out
}

// sparse returns those of some values that are not dense.Absent, in the same memory.
func sparse(values []float64, l labels.Labels) plan.Row {
	row, n := plan.Row{Labels: l}, 0
	for k := 0; k < len(values); k++ {
		first := k
		for k < len(values) && math.Float64bits(values[k]) != dense.Absent {
			k++
		}
		if k > first {
			row.Runs = append(row.Runs, plan.Run{First: int32(first), Len: int32(k - first)})
			if n < first {
				copy(values[n:], values[first:k])
			}
			n += k - first
		}
	}
	row.Values = slices.Clip(values[:n])
	return row
}

// cells are the state of some groups, steps a group.
type cells struct {
	op   *adding
	val  []float64
	comp []float64 // of sum and avg the compensation, of deviations the mean
	n    []float64
	incr []bool // avg: the sum would have overflowed, val is a running mean
	// running says that one of incr is set: by the goroutine that adds at that step, too.
	running atomic.Bool
}

func newCells(op *adding, n int) *cells {
	a := &cells{op: op}
	for _, column := range []*[]float64{&a.val, &a.comp, &a.n}[:op.columns] {
		*column = make([]float64, n)
	}
	if op == mean {
		a.incr = make([]bool, n)
	}
	return a
}
