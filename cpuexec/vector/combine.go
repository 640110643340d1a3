// Package vector evaluates operators on rows: between two sides (match.go, set.go), of each value
// by itself (maps.go, stepmap.go), of labels (relabel.go, info.go), of order (sort.go) and of
// absence.
//
// Finished rows go in. What becomes of them is known before any value is computed: a combination
// knows its series, and writes their values one series at a time. A Chain is what can be applied
// to each series on its way, without rows in between; a Stream applies it. Values are those of
// Prometheus's operators, bit by bit. An operator is declined where series match several others at
// a step, which Prometheus's engine reports.
//
// Start with NewCombined, and with Chain.
package vector

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// combination is the result of a node that combines the rows of its inputs. Its
// series are known before their values, which are written one series at a time,
// from several goroutines.
type combination interface {
	Size() int // series
	Labels(i int) labels.Labels
	// fill writes series i into a row without values. It returns false if that
	// takes two values at one step.
	fill(i int, out dense.Row) bool
}

// combine matches the rows of the inputs of n.
func combine(q *operator.Query, n plan.Node, in [][]plan.Row) (combination, error) {
	switch n := n.(type) {
	case *plan.Binary:
		return match(q, n, in[0], in[1])
	case *plan.Set:
		if n.MixedTypes && (hasTypes(in[0]) || hasTypes(in[1])) {
			return nil, &plan.Declined{At: n, Reason: plan.ReasonMixed}
		}
		return setOf(n, in[0], in[1], q.Grid.Steps), nil
	default:
		return stepMap(q, n.(*plan.StepMap), in)
	}
}

// combined evaluates a node that combines the rows of its inputs.
type combined struct {
	combination
	q       *operator.Query
	n       plan.Node
	inputs  []operator.Operator
	release func() // what is held besides, until the values are there

	in      [][]plan.Row
	samples int // in them
}

// NewCombined evaluates n, an operator between vectors or a map whose scalars vary by step.
func NewCombined(q *operator.Query, n plan.Node, inputs []operator.Operator) operator.Filler {
	return &combined{q: q, n: n, inputs: inputs}
}

// Open implements operator.Filler.
func (o *combined) Open() (_ *operator.Series, err error) {
	o.release = o.q.Holding()
	if o.in, o.samples, err = o.q.Inputs(o.inputs); err != nil {
		return nil, err
	}
	if o.combination, err = combine(o.q, o.n, o.in); err != nil {
		return nil, err
	}
	return &operator.Series{N: o.Size(), Labels: o.Labels}, nil
}

// Fill implements operator.Filler.
func (o *combined) Fill(_, i int, out dense.Row, c *dense.Counts) error {
	if !o.fill(i, out) {
		return &plan.Declined{At: o.n, Reason: reasonAmbiguous}
	}
	c.Points = dense.Count(out.Present)
	return nil
}

// End implements operator.Filler.
func (o *combined) End(points int, err error) error {
	if err != nil {
		return err
	}
	present := 0 // series of all inputs
	for _, rows := range o.in {
		present += len(rows)
		o.q.Charge(-operator.RowsBytes(rows))
	}
	least := o.q.Held + o.samples + points
	if err := o.q.CheckHeld(o.n, least, least+present); err != nil {
		return err
	}
	o.release()
	return nil
}
