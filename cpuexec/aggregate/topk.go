package aggregate

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
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
		GPU:      abi.Policy{Kernel: abi.ByRank, Name: policy, Second: bottom},
	})
}

func newRanker(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series, bottom bool) *ranker {
	a := &ranker{members: newMembers(n, q, in), k: p.high, bottom: bottom}
	if p.low < p.high {
		a.ks = p.values
	}
	a.layOut(a.instant() || a.ks != nil)
	return a
}

// layOut decides which groups have heaps, perhaps all, and where these are.
func (a *ranker) layOut(all bool) {
	a.heap, a.capacity, a.base, a.cells = make([]int32, len(a.groups.Sizes)), nil, nil, 0
	for g, size := range a.groups.Sizes {
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

func (a *ranker) Layout() Layout {
	l := a.members.Layout()
	l.Rooms = make([]int, len(a.groups.Sizes))
	for g, size := range a.groups.Sizes {
		l.Rooms[g] = atMost(a.k, size)
	}
	return l
}

// Offload lays the heaps out. An accelerator computes one for every group.
func (a *ranker) Offload(offloads bool) { a.layOut(offloads || a.instant() || a.ks != nil) }

func (a *ranker) Offloaded(x *offload.Results, has []bool) {
	a.noteSeries(has)
	a.all, a.filled = keyed{keys: x.Values, series: x.Series}, x.Filled
}

func (a *ranker) Size() (n plan.Node, cells int, bytes int64) {
	cells = a.cells + len(a.capacity)*a.steps
	return a.node, cells, 12 * int64(cells)
}

func (a *ranker) Allocate() {
	a.all = keyed{keys: make([]float64, a.cells), series: make([]int32, a.cells)}
	a.filled = make([]int32, len(a.capacity)*a.steps)
	a.floor = make([]float64, len(a.capacity)*a.steps)
	dense.Fill(a.floor, math.NaN())
	if slices.Contains(a.heap, -1) {
		a.collected = make([]plan.Row, len(a.groups.Of))
	}
}

func (a *ranker) Consume(q *operator.Query, b *operator.Batch) {
	a.noteFirst(b)
	q.SplitSteps(b, func(w0, w1 int) {
		for w := w0; w < w1; w++ {
			// Word by word, so that the heaps of few steps are at work at once.
			for i := range b.N {
				if h := a.heap[a.groups.Of[b.Lo+i]]; h >= 0 && b.Counts[i].Mapped > 0 {
					a.add(int(h), int32(b.Lo+i), b.Row(i), w)
				}
			}
		}
	})
	parallel.While(q.WorkersFor(b.N*b.Steps), b.N, func(_, i int) bool {
		if s := b.Lo + i; a.heap[a.groups.Of[s]] < 0 && b.Counts[i].Mapped > 0 {
			a.collected[s] = b.Row(i).Compact(b.Counts[i].Mapped, a.labels(s))
		}
		return true
	})
}

// add offers the steps of bitmap word w of one series to its group's heaps.
func (a *ranker) add(heap int, series int32, r dense.Row, w int) {
	lo := w << 6
	hi := min(lo+64, a.steps)
	values, floors := r.Values[lo:hi], a.floor[heap*a.steps+lo:heap*a.steps+hi]
	if a.bottom {
		values, floors = floors, values
	}
	// Of most steps the value is not good enough, which comparisons with NaN never say.
	for p := r.Present[w] &^ dense.AtLeast(floors, values); p != 0; p &= p - 1 {
		k := lo + bits.TrailingZeros64(p)
		a.offer(heap, k, series, r.Values[k])
	}
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
				out = append(out, plan.Row{Labels: a.labels(int(s)), Values: []float64{a.value(h.keys[i])}, Runs: []plan.Run{{Len: 1}}})
			}
		}
		return out
	}
	seen := make([]struct{ points, runs, next, row int32 }, len(a.groups.Of)) // of the row of a series
	a.eachKept(func(s int32, k int, _ float64) {
		of := &seen[s]
		if of.points == 0 || of.next != int32(k) {
			of.runs++
		}
		of.points, of.next = of.points+1, int32(k)+1
	})
	points, runs := 0, 0
	var series []int32 // of the rows
	for s := range seen {
		if n := seen[s]; n.points > 0 || a.collected != nil && len(a.collected[s].Values) > 0 {
			seen[s].row = int32(len(series))
			series, points, runs = append(series, int32(s)), points+int(n.points), runs+int(n.runs)
		}
	}
	// In one piece of memory: rows may be as many as points.
	out, allValues, allRuns := make([]plan.Row, len(series)), make([]float64, points), make([]plan.Run, runs)
	for i, s := range series {
		n := &seen[s]
		if n.points == 0 {
			out[i] = a.collected[s]
			continue
		}
		out[i] = plan.Row{Values: allValues[:0:n.points], Runs: allRuns[:0:n.runs]}
		allValues, allRuns = allValues[n.points:], allRuns[n.runs:]
	}
	a.eachKept(func(s int32, k int, v float64) {
		row := &out[seen[s].row]
		row.Values = append(row.Values, v)
		row.Runs = plan.AppendRun(row.Runs, plan.Run{First: int32(k), Len: 1})
	})
	parallel.Ranges(len(out), func(from, to int) {
		for i := from; i < to; i++ {
			if seen[series[i]].points > 0 {
				out[i].Labels = a.labels(int(series[i]))
			}
		}
	})
	return out
}

// eachKept calls f with the series in all heaps, the step, and the value there: of a series in the order of steps.
func (a *ranker) eachKept(f func(series int32, step int, v float64)) {
	parallel.For(len(a.capacity), func(heap int) {
		for k := range a.steps {
			h := a.at(heap, k)
			for i, s := range h.series {
				f(s, k, a.value(h.keys[i]))
			}
		}
	})
}

// keyed is a list of sort keys and the series that each belongs to, in the
// order of Prometheus's heap of samples. Ties and NaNs make the order depend on
// how the heap was built, so it moves elements exactly as Go's container/heap
// does, and it is a sort.Interface for Go's own sort.
type keyed struct {
	keys   []float64
	series []int32
}

// before is the order of Prometheus's heaps. NaN comes before everything, itself
// included.
func before(a, b float64) bool { return a < b || math.IsNaN(a) }

func (h keyed) Len() int { return len(h.keys) }

func (h keyed) Less(i, j int) bool { return before(h.keys[i], h.keys[j]) }

func (h keyed) Swap(i, j int) {
	h.keys[i], h.keys[j] = h.keys[j], h.keys[i]
	h.series[i], h.series[j] = h.series[j], h.series[i]
}

// up moves the last element to its place in the heap of the others.
func (h keyed) up() {
	at := len(h.keys) - 1
	key, series := h.keys[at], h.series[at]
	for parent := (at - 1) / 2; at > 0 && before(key, h.keys[parent]); parent = (at - 1) / 2 {
		h.keys[at], h.series[at] = h.keys[parent], h.series[parent]
		at = parent
	}
	h.keys[at], h.series[at] = key, series
}

// down moves the first element to its place in the heap of the others.
func (h keyed) down() {
	at, key, series := 0, h.keys[0], h.series[0]
	for child := 1; child < len(h.keys); child = 2*at + 1 {
		if right := child + 1; right < len(h.keys) && before(h.keys[right], h.keys[child]) {
			child = right
		}
		if !before(h.keys[child], key) {
			break
		}
		h.keys[at], h.series[at] = h.keys[child], h.series[child]
		at = child
	}
	h.keys[at], h.series[at] = key, series
}
