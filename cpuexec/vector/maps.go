package vector

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// mapper applies a map to rows: a function to each value, or an operator with a constant to up to
// 64 values, all of which it changes in place, or of which a bitmap says which it keeps. What has both
// value and all changes all where most values are there.
type mapper struct {
	value func(float64) float64
	all   func(vals []float64)
	holds func(vals []float64) uint64
}

func newMapper(m *plan.Map) mapper {
	f := Of(m.Func)
	if f.value != nil {
		value := f.value(m.Args)
		return mapper{value: value, all: f.vector.All(value)}
	}
	c := slices.Repeat(m.Args[:1], 64)
	sides := func(vals []float64) (lhs, rhs []float64) {
		if m.Swap {
			return c[:len(vals)], vals
		}
		return vals, c[:len(vals)]
	}
	holds := func(vals []float64) uint64 { return f.mask(sides(vals)) }
	switch {
	case m.Bool:
		return mapper{all: func(vals []float64) { truths(vals, holds(vals)) }}
	case m.Func.Compares:
		return mapper{holds: holds}
	case f.loop != nil:
		return mapper{all: func(vals []float64) {
			lhs, rhs := sides(vals)
			f.loop(vals, lhs, rhs)
		}}
	case m.Swap:
		return mapper{value: func(v float64) float64 { return f.arithmetic(m.Args[0], v) }}
	}
	return mapper{value: func(v float64) float64 { return f.arithmetic(v, m.Args[0]) }}
}

// truths writes 1 for the bits of a comparison that are set, and 0 for others.
func truths(out []float64, mask uint64) {
	for k := range out {
		out[k] = float64(mask >> (k & 63) & 1)
	}
}

// Map implements operator.Mapper.
func (m mapper) Map(r dense.Row) (points int) {
	for w, p := range r.Present {
		if p == 0 {
			continue
		}
		vals := r.Values[w<<6 : min(w<<6+64, len(r.Values))]
		switch {
		case m.all != nil && (m.value == nil || 2*bits.OnesCount64(p) > len(vals)):
			m.all(vals) // what is where there is no value does not matter
		case m.holds != nil:
			p &= m.holds(vals)
			r.Present[w] = p
		case bits.OnesCount64(p) == len(vals):
			for k, v := range vals {
				vals[k] = m.value(v)
			}
		default:
			for q := p; q != 0; q &= q - 1 {
				k := bits.TrailingZeros64(q)
				vals[k] = m.value(vals[k])
			}
		}
		points += bits.OnesCount64(p)
	}
	return points
}

// kernel returns the code of a binary operator: it writes the results for a
// stretch of steps, from the given one on, at which both sides have a value. A
// comparison yields 0 or 1 with asBool, else it keeps the left side's value.
func kernel(op *plan.MapFunc, asBool bool) func(out dense.Row, first int, lhs, rhs []float64) {
	keep, compute := Of(op).mask, Of(op).loop
	switch {
	case asBool:
		compute = func(out, lhs, rhs []float64) {
			for k := 0; k < len(lhs); k += 64 {
				n := min(k+64, len(lhs))
				truths(out[k:n], keep(lhs[k:n], rhs[k:n]))
			}
		}
	case op.Compares:
		return func(out dense.Row, first int, lhs, rhs []float64) { filter(out, first, lhs, rhs, keep) }
	case compute == nil:
		f := Of(op).arithmetic
		compute = func(out, lhs, rhs []float64) {
			for k := range out {
				out[k] = f(lhs[k], rhs[k])
			}
		}
	}
	return func(out dense.Row, first int, lhs, rhs []float64) {
		compute(out.Values[first:first+len(lhs)], lhs, rhs)
		out.Mark(first, len(lhs))
	}
}

// filter keeps the left side's values for which a comparison holds.
func filter(out dense.Row, first int, lhs, rhs []float64, keep func(lhs, rhs []float64) uint64) {
	copy(out.Values[first:], lhs)
	dense.EachWord(first, len(lhs), func(w int, mask uint64) {
		k, n := max(w<<6-first, 0), min(w<<6+64-first, len(lhs))
		shift := (first + k) & 63
		out.Present[w] |= keep(lhs[k:n], rhs[k:n]) << shift & mask
	})
}

// stepMapped is the result of a map whose scalars vary by step.
type stepMapped struct {
	rows  []plan.Row
	names []labels.Labels // of the result
	// Of an operator: its code, its scalar and which side that is on.
	apply   func(out dense.Row, first int, lhs, rhs []float64)
	scalar  []float64
	swapped bool
	// Of a function: the map of each step.
	at []mapper
}

// stepMap applies a map to the vector among its operands.
func stepMap(q *operator.Query, n *plan.StepMap, in [][]plan.Row) (*stepMapped, error) {
	s := &stepMapped{rows: in[n.Vector], names: labelsOf(seriesOf(in[n.Vector]))}
	if !n.Filters() && !q.DelayedNameRemoval && !removeNames(s.names) && !q.Merging {
		return nil, &plan.Declined{At: n, Reason: ReasonCollide, Merges: true}
	}
	if f := Of(n.Func); f.mask != nil || f.arithmetic != nil {
		s.scalar, s.swapped = in[1-n.Vector][0].Values, n.Vector == 1
		op := n.Func
		if f.mask != nil && s.swapped {
			// What a comparison keeps is the vector's value, on either side.
			op, s.swapped = Named(f.mirror), false
		}
		s.apply = kernel(op, n.Bool)
		return s, nil
	}
	s.at = make([]mapper, q.Grid.Steps)
	for k := range s.at {
		if n.Func == StepTime {
			t := float64(q.Grid.At(k)) / 1000
			s.at[k].value = func(float64) float64 { return t }
			continue
		}
		args := make([]float64, 0, len(in)-1)
		for _, scalar := range in[1:] {
			args = append(args, scalar[0].Values[k])
		}
		if drops := Of(n.Func).Drops; drops != nil && drops(args) {
			continue // of which nothing is left
		}
		s.at[k] = newMapper(&plan.Map{Func: n.Func, Args: args})
	}
	return s, nil
}

func (s *stepMapped) fill(i int, out dense.Row) bool {
	in, at := &s.rows[i], 0
	for _, run := range in.Runs {
		first, n := int(run.First), int(run.Len)
		vals := in.Values[at : at+n]
		at += n
		if s.apply == nil {
			for k, v := range vals {
				if value := s.at[first+k].value; value != nil {
					out.Set(first+k, value(v))
				}
			}
			continue
		}
		lhs, rhs := vals, s.scalar[first:first+n]
		if s.swapped {
			lhs, rhs = rhs, lhs
		}
		s.apply(out, first, lhs, rhs)
	}
	return true
}

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
		dense.Fill(out, n.Value)
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

// ScalarFunc returns an operator on numbers, for one goroutine. A comparison yields 0 or 1.
func ScalarFunc(f *plan.MapFunc) func(a, b float64) float64 {
	if operate := Of(f).arithmetic; operate != nil {
		return operate
	}
	mask, lhs, rhs := Of(f).mask, make([]float64, 1), make([]float64, 1)
	return func(a, b float64) float64 {
		lhs[0], rhs[0] = a, b
		return float64(mask(lhs, rhs) & 1)
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
