package cpuexec

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/util/kahansum"

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
	slabs []*cells
	mu    sync.Mutex // guards who makes a slab
	each  int        // groups a slab
	seen  []uint64   // bitmap, words a group
	// offloaded are results that an accelerator computed, and then all there is: steps a
	// group, Absent where there is no value.
	offloaded []float64
}

// cells are the state of some groups, steps a group.
type cells struct {
	op   *plan.AggregateFunc
	val  []float64
	comp []float64 // of sum and avg the compensation
	n    []float64
	incr []bool // avg: the sum would have overflowed, val is a running mean
	// running says that one of incr is set: by whoever adds at that step, too.
	running atomic.Bool
}

// slabCells is the number of cells above which a slab has one group alone.
const slabCells = 1 << 17

func newAccumulator(op *plan.AggregateFunc, groups, steps int) *accumulator {
	a := &accumulator{op: op, steps: steps, words: (steps + 63) / 64, each: min(max(1, slabCells/max(steps, 1)), max(groups, 1))}
	a.seen = make([]uint64, groups*a.words)
	a.slabs = make([]*cells, (groups+a.each-1)/a.each)
	return a
}

// reserve makes room for a group. It must be called before add.
func (a *accumulator) reserve(group int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slab := &a.slabs[group/a.each]; *slab == nil {
		*slab = newCells(a.op, a.each*a.steps)
	}
}

// of returns the cells of a group and the index of the first of them.
func (a *accumulator) of(group int) (c *cells, base int) {
	return a.slabs[group/a.each], group % a.each * a.steps
}

func newCells(op *plan.AggregateFunc, n int) *cells {
	a := &cells{op: op}
	switch op.Name {
	case "sum":
		a.val, a.comp = make([]float64, n), make([]float64, n)
	case "avg":
		a.val, a.comp, a.n = make([]float64, n), make([]float64, n), make([]float64, n)
		a.incr = make([]bool, n)
	case "min", "max":
		a.val = make([]float64, n)
	case "count":
		a.n = make([]float64, n)
	case "stddev", "stdvar":
		// val is the sum of squared distances from the mean, comp the mean.
		a.val, a.comp, a.n = make([]float64, n), make([]float64, n), make([]float64, n)
	}
	return a
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
		lo := w << 6
		for p != 0 {
			b := bits.TrailingZeros64(p)
			p &= p - 1
			k := lo + b
			if old>>b&1 == 0 {
				cells.first(base+k, r.Values[k])
			} else {
				cells.next(base+k, r.Values[k])
			}
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

// first starts a group at one step.
func (a *cells) first(c int, f float64) {
	if a.val != nil {
		a.val[c] = f
	}
	if a.n != nil {
		a.n[c] = 1
	}
	if a.op.Name == "stddev" || a.op.Name == "stdvar" {
		a.val[c], a.comp[c] = 0, f
		if math.IsNaN(f) || math.IsInf(f, 0) {
			a.val[c] = math.NaN()
		}
	}
}

// next adds a further value to a group at one step.
func (a *cells) next(c int, f float64) {
	switch a.op.Name {
	case "sum":
		a.val[c], a.comp[c] = kahansum.Inc(f, a.val[c], a.comp[c])
	case "avg":
		a.n[c]++
		if !a.incr[c] {
			val, comp := kahansum.Inc(f, a.val[c], a.comp[c])
			if !math.IsInf(val, 0) {
				a.val[c], a.comp[c] = val, comp
				return
			}
			// The sum overflows: go on with a running mean, as Prometheus does.
			a.incr[c] = true
			a.running.Store(true)
			a.val[c] /= a.n[c] - 1
			a.comp[c] /= a.n[c] - 1
		}
		n := a.n[c]
		q := (n - 1) / n
		a.val[c], a.comp[c] = kahansum.Inc(f/n, q*a.val[c], q*a.comp[c])
	case "min":
		if a.val[c] > f || math.IsNaN(a.val[c]) {
			a.val[c] = f
		}
	case "max":
		if a.val[c] < f || math.IsNaN(a.val[c]) {
			a.val[c] = f
		}
	case "count":
		a.n[c]++
	case "stddev", "stdvar":
		a.n[c]++
		delta := f - a.comp[c]
		a.comp[c] += delta / a.n[c]
		a.val[c] += float64(delta * (f - a.comp[c]))
	}
}

// results writes the aggregates of consecutive cells, the first of which is c,
// to out. Those of cells without a value mean nothing.
func (a *cells) results(c int, out []float64) {
	switch a.op.Name {
	case "sum":
		val, comp := a.val[c:c+len(out)], a.comp[c:c+len(out)]
		for k := range out {
			out[k] = val[k] + comp[k]
		}
	case "avg":
		for k := range out {
			if sum, comp := a.val[c+k], a.comp[c+k]; a.incr[c+k] {
				out[k] = sum + comp
			} else {
				out[k] = float64(sum/a.n[c+k]) + float64(comp/a.n[c+k])
			}
		}
	case "count":
		copy(out, a.n[c:])
	case "group":
		for k := range out {
			out[k] = 1
		}
	case "stdvar":
		for k := range out {
			out[k] = a.val[c+k] / a.n[c+k]
		}
	case "stddev":
		for k := range out {
			out[k] = math.Sqrt(a.val[c+k] / a.n[c+k])
		}
	default:
		copy(out, a.val[c:])
	}
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
