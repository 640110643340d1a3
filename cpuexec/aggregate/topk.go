package aggregate

import (
	"math"
	"math/bits"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// ranker is the sink of topk and bottomk. For every group and step it holds a
// heap of the best values so far, as Prometheus's engine does, with the worst of
// them on top. A series that at some step is not worse than that replaces it;
// the values of the others are never kept.
//
// Steps are split over the cores; each takes the series in order. Of a group
// with no more series than are asked for, everything is kept, and over several
// steps no heap is needed for that.
type ranker struct {
	members
	k        float64   // the largest one
	ks       []float64 // of each step, where they vary
	bottom   bool      // keys are values with their sign changed, so that the best are the largest
	heap     []int32   // number of each group's heaps, -1 for none
	capacity []int     // size of a full heap, by heap number
	base     []int     // where the heap of the first step begins in keys and series
	cells    int       // elements of all heaps at all steps
	filled   []int32   // elements of a heap, by heap number and step
	floor    []float64
	// floor is what a value must not be worse than, as a value, by heap number
	// and step. It is NaN until the heap is full.
	all       keyed
	collected []plan.Row // of groups without heaps, by series
}

var (
	_ = defineRanker("topk", "Top", false)
	_ = defineRanker("bottomk", "Bottom", true)
)

func defineRanker(name, policy string, bottom bool) *plan.AggregateFunc {
	return define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: name, Param: true, Keeps: true},
		selector: func(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) Selector {
			return newRanker(n, p, q, in, bottom)
		},
		check:    (*Parameter).checkCount,
		Repeats:  true,
		Ordinary: func(k float64) bool { return k == k },
		GPU:      abi.Policy{Kernel: abi.ByRank, Name: policy},
	})
}

func newRanker(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series, bottom bool) *ranker {
	a := &ranker{members: newMembers(n, q, in), k: p.high, ks: p.values, bottom: bottom}
	a.layOut(a.instant() || a.ks != nil)
	a.collected = make([]plan.Row, in.N)
	return a
}

// layOut decides which groups have heaps, perhaps all, and where these are.
func (a *ranker) layOut(all bool) {
	a.heap, a.capacity, a.base, a.cells = make([]int32, len(a.size)), nil, nil, 0
	for g, size := range a.size {
		capacity := atMost(a.k, size)
		if capacity == int(size) && !all {
			a.heap[g] = -1
			continue
		}
		a.heap[g] = int32(len(a.capacity))
		a.capacity = append(a.capacity, capacity)
		a.base = append(a.base, a.cells)
		a.cells += capacity * a.steps
	}
}

func (a *ranker) TooLarge(maxSamples int) string {
	if tooManyCells(a.cells/a.steps+len(a.capacity), a.steps, maxSamples) {
		return reasonCells
	}
	return ""
}

func (a *ranker) Bytes() int64 { return 12 * int64(a.cells+len(a.capacity)*a.steps) }

func (a *ranker) Allocate() {
	a.all = keyed{keys: make([]float64, a.cells), series: make([]int32, a.cells)}
	a.filled = make([]int32, len(a.capacity)*a.steps)
	a.floor = make([]float64, len(a.capacity)*a.steps)
	for k := range a.floor {
		a.floor[k] = math.NaN()
	}
}

func (a *ranker) Consume(q *operator.Query, b *operator.Batch) {
	noteFirst(a.first, a.of, b)
	q.SplitSteps(b, func(w0, w1 int) {
		for w := w0; w < w1; w++ {
			// Word by word, so that the heaps of few steps are at work at once.
			for i := range b.N {
				if h := a.heap[a.of[b.Lo+i]]; h >= 0 && b.Counts[i].Mapped > 0 {
					a.add(int(h), int32(b.Lo+i), b.Row(i), w)
				}
			}
		}
	})
	parallel.While(q.WorkersFor(b.N*b.Steps), b.N, func(_, i int) bool {
		if s := b.Lo + i; a.heap[a.of[s]] < 0 && b.Counts[i].Mapped > 0 {
			a.collected[s] = b.Row(i).Compact(b.Counts[i].Mapped, a.labels(s))
		}
		return true
	})
}

// add offers the steps of bitmap word w of one series to its group's heaps.
func (a *ranker) add(heap int, series int32, r dense.Row, w int) {
	lo := w << 6
	hi := min(lo+64, a.steps)
	p := r.Present[w]
	if bits.OnesCount64(p) < hi-lo {
		for ; p != 0; p &= p - 1 {
			k := lo + bits.TrailingZeros64(p)
			a.offer(heap, k, series, r.Values[k])
		}
		return
	}
	// The common case: every step has a value, and few are good enough.
	floors := a.floor[heap*a.steps:]
	for k := lo; k < hi; k++ {
		if a.bottom {
			k += below(r.Values[k:hi], floors[k:hi])
		} else {
			k += above(r.Values[k:hi], floors[k:hi])
		}
		if k < hi {
			a.offer(heap, k, series, r.Values[k])
		}
	}
}

// above is the index of the first value that is not at most its floor, or the
// number of values. Comparisons with NaN are false, so it stops at NaNs.
func above(vals, floors []float64) int {
	floors = floors[:len(vals)]
	k := 0
	for ; k+4 <= len(vals); k += 4 {
		v, f := vals[k:k+4], floors[k:k+4]
		if !(v[0] <= f[0] && v[1] <= f[1] && v[2] <= f[2] && v[3] <= f[3]) {
			break
		}
	}
	for ; k < len(vals); k++ {
		if !(vals[k] <= floors[k]) {
			return k
		}
	}
	return k
}

// below is the same for values that are not at least their floors.
func below(vals, floors []float64) int {
	floors = floors[:len(vals)]
	k := 0
	for ; k+4 <= len(vals); k += 4 {
		v, f := vals[k:k+4], floors[k:k+4]
		if !(v[0] >= f[0] && v[1] >= f[1] && v[2] >= f[2] && v[3] >= f[3]) {
			break
		}
	}
	for ; k < len(vals); k++ {
		if !(vals[k] >= floors[k]) {
			return k
		}
	}
	return k
}

// offer puts one value into the heap of a step if it is good enough.
func (a *ranker) offer(heap, step int, series int32, v float64) {
	cell := heap*a.steps + step
	h, capacity := a.at(heap, step), a.capacity[heap]
	if a.ks != nil {
		if capacity = atStep(a.ks[step], capacity); capacity == 0 {
			return
		}
	}
	key := v
	if a.bottom {
		key = -v
	}
	if n := len(h.keys); n < capacity {
		h.keys, h.series = append(h.keys, key), append(h.series, series)
		h.up()
		a.filled[cell]++
		if n+1 < capacity {
			return
		}
	} else {
		if !(h.keys[0] < key || (math.IsNaN(h.keys[0]) && !math.IsNaN(key))) {
			return
		}
		h.keys[0], h.series[0] = key, series
		h.down()
	}
	a.floor[cell] = h.keys[0]
	if a.bottom {
		a.floor[cell] = -h.keys[0]
	}
}

// at is a heap at a step. It may be appended to until it is full.
func (a *ranker) at(heap, step int) keyed {
	from := a.base[heap] + step*a.capacity[heap]
	to, end := from+int(a.filled[heap*a.steps+step]), from+a.capacity[heap]
	return keyed{keys: a.all.keys[from:to:end], series: a.all.series[from:to:end]}
}

// value turns a key back into the value.
func (a *ranker) value(key float64) float64 {
	if a.bottom {
		return -key
	}
	return key
}

func (a *ranker) Rows(q *operator.Query) []plan.Row {
	rows := a.selected()
	q.Free(a, rows)
	return rows
}

// selected returns the series that are kept at some step.
func (a *ranker) selected() []plan.Row {
	var out []plan.Row
	if a.instant() {
		for _, g := range byFirst(a.first) {
			h := a.at(int(a.heap[g]), 0)
			sort.Sort(sort.Reverse(h))
			for i, s := range h.series {
				out = append(out, plan.Row{Labels: a.labels(int(s)), Values: []float64{a.value(h.keys[i])}, Runs: oneStep})
			}
		}
		return out
	}
	points := make([]int, len(a.collected))
	parallel.For(len(a.capacity), func(heap int) {
		a.collect(heap, points)
	})
	for _, row := range a.collected {
		if len(row.Values) > 0 {
			out = append(out, row)
		}
	}
	return out
}

// collect makes the rows of the series in a group's heaps. points are zeros, a series.
func (a *ranker) collect(heap int, points []int) {
	for k := range a.steps {
		for _, s := range a.at(heap, k).series {
			points[s]++
		}
	}
	for k := range a.steps {
		h := a.at(heap, k)
		for i, s := range h.series {
			row := &a.collected[s]
			if row.Values == nil {
				row.Labels = a.labels(int(s))
				row.Values = make([]float64, 0, points[s])
			}
			row.Values = append(row.Values, a.value(h.keys[i]))
			row.Runs = dense.AppendRun(row.Runs, plan.Run{First: int32(k), Len: 1})
		}
	}
}

// oneStep are the runs of a row on a grid of one step.
var oneStep = []plan.Run{{Len: 1}}
