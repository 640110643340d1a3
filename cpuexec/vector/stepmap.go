package vector

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// stepMapped is the result of a map whose scalars vary by step.
type stepMapped struct {
	rows  []plan.Row
	names []labels.Labels // of the result, nil if they are those of rows
	// Of an operator: its code, its scalar and which side that is on.
	apply   func(out dense.Row, first int, lhs, rhs []float64)
	scalar  []float64
	swapped bool
	// Of a function: the map of each step.
	at []Mapper
}

// stepMap applies a map to the vector among its operands.
func stepMap(q *operator.Query, n *plan.StepMap, in [][]plan.Row) (*stepMapped, error) {
	s := &stepMapped{rows: in[n.Vector]}
	if !n.Filters() && !q.DelayedNameRemoval {
		var ok bool
		if s.names, ok = withoutNames(len(s.rows), func(i int) labels.Labels { return s.rows[i].Labels }); !ok && !n.Merges {
			return nil, &plan.Declined{At: n, Reason: ReasonCollide, Merges: true}
		}
	}
	if f := Of(n.Func); f.holds != nil || f.arithmetic != nil {
		s.scalar, s.swapped = in[1-n.Vector][0].Values, n.Vector == 1
		op := n.Func
		if f.holds != nil && s.swapped {
			// What a comparison keeps is the vector's value, on either side.
			op, s.swapped = Named(f.mirror), false
		}
		s.apply = kernel(op, n.Bool)
		return s, nil
	}
	s.at = make([]Mapper, q.Grid.Steps)
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
			s.at[k].keep = func(float64) bool { return false }
			continue
		}
		s.at[k] = newMapper(&plan.Map{Func: n.Func, Args: args})
	}
	return s, nil
}

func (s *stepMapped) Size() int { return len(s.rows) }

func (s *stepMapped) Labels(i int) labels.Labels {
	if s.names != nil {
		return s.names[i]
	}
	return s.rows[i].Labels
}

func (s *stepMapped) fill(i int, out dense.Row) bool {
	in, at := &s.rows[i], 0
	for _, run := range in.Runs {
		first, n := int(run.First), int(run.Len)
		vals := in.Values[at : at+n]
		at += n
		if s.apply == nil {
			for k, v := range vals {
				switch m := &s.at[first+k]; {
				case m.value != nil:
					out.Set(first+k, m.value(v))
				case m.keep(v):
					out.Set(first+k, v)
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
