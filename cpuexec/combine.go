package cpuexec

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// combination is the result of a node that combines the rows of its inputs. Its
// series are known before their values, which are written one series at a time,
// from several goroutines.
type combination interface {
	size() int // series
	labels(i int) labels.Labels
	// fill writes series i into a row without values. It returns false if that
	// takes two values at one step.
	fill(i int, out dense.Row) bool
}

// combines reports whether r.combined can evaluate n.
func combines(n plan.Node) bool {
	switch n.(type) {
	case *plan.Binary, *plan.Set:
		return true
	case *plan.StepMap:
		return !merges(n)
	}
	return false
}

// inputs evaluates the inputs of n in order, while the samples of those before
// are held, and returns the number of samples in all of them.
func (r *run) inputs(n plan.Node) (in [][]plan.Row, samples int, err error) {
	defer func() { r.Held -= samples }()
	for _, input := range n.Inputs() {
		rows, err := r.node(input)
		if err != nil {
			return nil, samples, err
		}
		in = append(in, rows)
		for i := range rows {
			samples += len(rows[i].Values)
			r.Held += len(rows[i].Values)
		}
	}
	return in, samples, nil
}

// combined evaluates n, and the chain above it, batch by batch into the sink that
// open makes once the series are known.
func (r *run) combined(n plan.Node, above chain, open func(size int, at func(int) labels.Labels) operator.Sink) error {
	release := r.Holding()
	in, samples, err := r.inputs(n)
	if err != nil {
		return err
	}
	c, err := combine(r.Query, n, in)
	if err != nil {
		return explained(r.Query, n, in, samples, err)
	}
	at, err := labelsAfter(r.Query, c.size(), c.labels, above)
	if err != nil {
		return err
	}
	out := open(c.size(), at)
	if err := r.Reserve(out); err != nil {
		return err
	}
	defer func() {
		for _, rows := range in {
			r.Charge(-operator.RowsBytes(rows))
		}
	}()
	kept, err := fill(r.Query, n, c, above.mappers(), out)
	if err != nil {
		return explained(r.Query, n, in, samples, err)
	}
	present := 0 // series of all inputs
	for _, rows := range in {
		present += len(rows)
	}
	least := r.Held + samples + kept[0]
	if err := r.CheckHeld(n, least, least+present); err != nil {
		return err
	}
	release()
	return above.check(r.Query, kept, c.size())
}

// combine matches the rows of the inputs of n.
func combine(q *operator.Query, n plan.Node, in [][]plan.Row) (combination, error) {
	switch n := n.(type) {
	case *plan.Binary:
		if fills(n) {
			return fillIn(q, n, in[0], in[1])
		}
		return match(q, n, in[0], in[1])
	case *plan.Set:
		return setOf(n, in[0], in[1], q.Grid.Steps), nil
	default:
		return stepMap(q, n.(*plan.StepMap), in)
	}
}

// explained is the error of Prometheus's engine in place of that of an operator that
// was declined because several series match. It stays declined where the sample limit
// might be reached first: inputs have so many samples, and the result no more.
func explained(q *operator.Query, n plan.Node, in [][]plan.Row, samples int, err error) error {
	b, ok := n.(*plan.Binary)
	var d *plan.Declined
	if !ok || !errors.As(err, &d) || d.Reason != reasonAmbiguous || !q.MayHold(q.Held+2*samples+len(in[0])+len(in[1])) {
		return err
	}
	return findAmbiguity(q, b, in[0], in[1], err)
}

// collectCombined is combined into rows.
func (r *run) collectCombined(n plan.Node, above chain) ([]plan.Row, error) {
	c := &operator.Collector{}
	err := r.combined(n, above, func(_ int, at func(int) labels.Labels) operator.Sink {
		c.Labels = at
		return c
	})
	return c.Rows, err
}

// fill writes all series of c, applies the maps and hands them to a sink. It
// returns the number of values before the maps and after each.
func fill(q *operator.Query, n plan.Node, c combination, mappers []mapper, out operator.Sink) (kept []int, err error) {
	size, steps := c.size(), q.Grid.Steps
	workers := q.WorkersFor(size * steps)
	keptBy := make([][]int, workers)
	for k := range keptBy {
		keptBy[k] = make([]int, len(mappers))
	}
	kept = make([]int, len(mappers)+1)
	b, free, err := q.NewBatch(size, workers)
	if err != nil {
		return nil, err
	}
	defer free()
	twice := make([]bool, workers)
	for b.Lo = 0; b.Lo < size; b.Lo += b.N {
		if err := q.Done(); err != nil {
			return nil, err
		}
		b.N = min(len(b.Counts), size-b.Lo)
		clear(b.Present)
		parallel.While(workers, b.N, func(k, i int) bool {
			row := b.Row(i)
			if !c.fill(b.Lo+i, row) {
				twice[k] = true
				return false
			}
			b.Counts[i] = dense.Counts{Points: dense.Count(row.Present)}
			applyAll(mappers, row, &b.Counts[i], keptBy[k])
			return true
		})
		for _, t := range twice {
			if t {
				return nil, &plan.Declined{At: n, Reason: reasonAmbiguous}
			}
		}
		for i := range b.N {
			kept[0] += b.Counts[i].Points
		}
		out.Consume(q, b)
	}
	for _, of := range keptBy {
		for k, v := range of {
			kept[k+1] += v
		}
	}
	return kept, nil
}
