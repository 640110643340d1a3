package aggregate

import (
	"math/bits"
	"sync"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

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

// group returns the values of a group and the steps they belong to.
func (a *accumulator) group(g int) ([]float64, []plan.Run) {
	if a.offloaded != nil {
		row := sparse(a.offloaded[g*a.steps : (g+1)*a.steps])
		return row.Values, row.Runs
	}
	seen := a.seen[g*a.words : (g+1)*a.words]
	n := dense.Count(seen)
	if n == 0 {
		return nil, nil
	}
	vals, rs, at := make([]float64, n), dense.Runs(seen, a.steps), 0
	cells, base := a.of(g)
	for _, r := range rs {
		cells.results(base+int(r.First), vals[at:at+int(r.Len)])
		at += int(r.Len)
	}
	return vals, rs
}
