package vector

import (
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// NewScalar evaluates a node that has one value at every step.
func NewScalar(q *operator.Query, n plan.Node, inputs []operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) {
		in, samples, err := q.Inputs(inputs)
		if err != nil {
			return nil, err
		}
		steps := q.Grid.Steps
		out := make([]float64, steps)
		present := 0 // series of all inputs
		for _, rows := range in {
			present += len(rows)
		}
		if err := scalar(n, in, q.Grid, out); err != nil {
			return nil, err
		}
		least := q.Held + samples + steps
		if err := q.CheckHeld(n, least, least+present); err != nil {
			return nil, err
		}
		return []plan.Row{{Labels: labels.EmptyLabels(), Values: out, Runs: []plan.Run{{Len: int32(steps)}}}}, nil
	}}
}

// scalar fills out with the values, at the steps of g, of a node that has one at every
// step. in are its inputs.
func scalar(n plan.Node, in [][]plan.Row, g plan.Grid, out []float64) error {
	switch n := n.(type) {
	case *plan.Number:
		for k := range out {
			out[k] = n.Value
		}
	case *plan.Time:
		for k := range out {
			out[k] = float64(g.At(k)) / 1000
		}
	case *plan.Scalar:
		only(in[0], out)
	case *plan.Vector:
		copy(out, in[0][0].Values)
	case *plan.Date:
		f := Of(n.Func).value(nil)
		for k := range out {
			out[k] = f(float64(g.At(k) / 1000))
		}
	case *plan.ScalarOp:
		f := ScalarFunc(n.Func)
		for k := range out {
			out[k] = f(in[0][0].Values[k], in[1][0].Values[k])
		}
	default:
		return fmt.Errorf("%T is not a scalar", n)
	}
	return nil
}

// ScalarFunc returns an operator on numbers. A comparison yields 0 or 1.
func ScalarFunc(f *plan.MapFunc) func(a, b float64) float64 {
	if operate := Of(f).arithmetic; operate != nil {
		return operate
	}
	holds := Of(f).holds
	return func(a, b float64) float64 {
		if holds(a, b) {
			return 1
		}
		return 0
	}
}

// only writes the value of the steps at which exactly one row has one, and NaN
// for the others.
func only(rows []plan.Row, out []float64) {
	n := make([]int32, len(out))
	for i := range rows {
		at := 0
		for _, run := range rows[i].Runs {
			for k := run.First; k < run.First+run.Len; k++ {
				n[k]++
				out[k] = rows[i].Values[at]
				at++
			}
		}
	}
	for k := range out {
		if n[k] != 1 {
			out[k] = math.NaN()
		}
	}
}
