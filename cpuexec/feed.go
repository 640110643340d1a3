package cpuexec

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// input is what a sink is told of the series that it is about to take.
type input struct {
	n      int
	labels func(i int) labels.Labels
	// grouping are the labels as far as the sink's aggregation groups by them;
	// they are cheaper to get.
	grouping func(i int) labels.Labels
	source   *source // of the series, if they come right from one
}

// groups are those of an aggregation of the series.
func (in *input) groups(a *plan.Aggregate) groups {
	if in.source != nil {
		return in.source.groups(a)
	}
	return group(a, in.n, in.grouping)
}

// bounded is a sink that holds state for every group and step.
type bounded interface {
	owner() plan.Node               // whose state it is
	tooLarge(maxSamples int) string // why the state would not fit, or nothing
	bytes() int64                   // memory of the state
	open()                          // allocates it
}

// reserve lets a sink allocate its state, if that fits.
func (q *query) reserve(out sink) error {
	b, ok := out.(bounded)
	if !ok {
		return nil
	}
	if reason := b.tooLarge(q.maxSamples); reason != "" {
		return &plan.Declined{At: b.owner(), Reason: reason}
	}
	q.take(b.bytes())
	if err := q.done(); err != nil {
		return err
	}
	b.open()
	return nil
}

// free counts the memory of a sink's state no longer, but that of the rows made
// of it.
func (q *query) free(out sink, rows []plan.Row) {
	if b, ok := out.(bounded); ok {
		q.take(rowsBytes(rows) - b.bytes())
	}
}

// feed evaluates the input of the aggregation n and hands its series, in order
// and batch by batch, to the sink that open makes. Only where nothing else will
// do are they made rows first.
func (r *run) feed(n *plan.Aggregate, open func(in input) sink) error {
	bottom, above := underChain(n.Input)
	if w, ok := bottom.(*plan.Window); ok {
		return r.window(w, above, func(s *source) sink {
			return open(input{n: len(s.labels), labels: s.resultLabels, grouping: s.labelsFor(n), source: s})
		})
	}
	if combines(bottom) {
		return r.combined(bottom, above, func(size int, at func(int) labels.Labels) sink {
			return open(input{n: size, labels: at, grouping: at})
		})
	}
	if inner, ok := bottom.(*plan.Aggregate); ok && inner.Func.Adds() && above.relabelsOnly() && !r.mayRemember(inner) {
		a, err := r.accumulate(inner)
		if err != nil {
			return err
		}
		defer r.free(a, nil)
		order := a.order()
		at, err := labelsAfter(r.query, len(order), func(i int) labels.Labels { return a.groups.labels[order[i]] }, above)
		if err != nil {
			return err
		}
		return r.batches(open(input{n: len(order), labels: at, grouping: at}), len(order), func(i int, out dense.Row) int {
			return a.acc.row(order[i], out)
		})
	}
	rows, err := r.node(n.Input)
	if err != nil {
		return err
	}
	defer r.take(-rowsBytes(rows))
	at := func(i int) labels.Labels { return rows[i].Labels }
	return r.batches(open(input{n: len(rows), labels: at, grouping: at}), len(rows), func(i int, out dense.Row) int {
		out.Put(&rows[i])
		return len(rows[i].Values)
	})
}

// batches hands n series, which fill writes to dense rows, to a sink. fill
// returns the number of values.
func (q *query) batches(out sink, n int, fill func(i int, out dense.Row) int) error {
	if err := q.reserve(out); err != nil {
		return err
	}
	b, free, err := q.newBatch(n, q.workers)
	if err != nil {
		return err
	}
	defer free()
	for b.lo = 0; b.lo < n; b.lo += b.n {
		if err := q.done(); err != nil {
			return err
		}
		b.n = min(len(b.counts), n-b.lo)
		clear(b.present)
		parallel.While(q.workersFor(b.n*b.steps), b.n, func(_, i int) bool {
			points := fill(b.lo+i, b.row(i))
			b.counts[i] = dense.Counts{Points: points, Kept: points}
			return true
		})
		out.take(q, b)
	}
	return nil
}

// stretches splits the steps of a batch over the cores: f is called for ranges
// of whole bitmap words, so that no two goroutines share one.
func (q *query) stretches(b *batch, f func(w0, w1 int)) {
	points := 0
	for i := range b.n {
		points += b.counts[i].Kept
	}
	workers := min(q.workersFor(points), b.words)
	parallel.While(workers, workers, func(_, k int) bool {
		f(k*b.words/workers, (k+1)*b.words/workers)
		return true
	})
}

// noteFirst notes which series of a batch is the first with a value of its
// group; first has -1 for groups that have none yet.
func noteFirst(first, of []int32, b *batch) {
	for i := range b.n {
		if g := of[b.lo+i]; b.counts[i].Kept > 0 && first[g] < 0 {
			first[g] = int32(b.lo + i)
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
