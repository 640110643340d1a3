package vector

import (
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// NewSort evaluates a function that sorts at a single step. Prometheus's own code puts the rows
// of the input in order: where values are equal or NaN, the order depends on how it goes about it.
func NewSort(q *operator.Query, n *plan.Sort, input operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) {
		in, err := operator.Rows(input)
		if err != nil {
			return nil, err
		}
		return sorted(q, n, in)
	}}
}

func sorted(q *operator.Query, n *plan.Sort, in []plan.Row) ([]plan.Row, error) {
	if err := checkSorted(q, n, operator.Points(in), len(in)); err != nil {
		return nil, err
	}
	vector := make(promql.Vector, len(in))
	for i := range in {
		vector[i] = promql.Sample{T: int64(i), F: in[i].Values[0], Metric: in[i].Labels}
	}
	args := parser.Expressions{nil} // the vector, which comes by itself
	for _, name := range n.Labels {
		args = append(args, &parser.StringLiteral{Val: name})
	}
	vector, notes := promql.FunctionCalls[n.Name]([]promql.Vector{vector}, nil, args, nil)
	q.Matrix.Annotations.Merge(notes)
	out := make([]plan.Row, len(vector))
	for i, s := range vector {
		out[i] = in[s.T]
	}
	return out, nil
}
