package aggregate

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// New evaluates the aggregation n. param is its parameter where that is no constant, and nil
// otherwise.
func New(q *operator.Query, n *plan.Aggregate, param, input operator.Operator) operator.Filler {
	if n.Func.Adds() {
		return NewSum(q, n, input, false)
	}
	return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) {
		if n.Label != "" {
			return counted(q, n, input)
		}
		p, err := parameterOf(n, param)
		if err != nil {
			return nil, err
		}
		// Prometheus's engine holds the parameter's samples meanwhile.
		q.Held += q.Grid.Steps
		defer func() { q.Held -= q.Grid.Steps }()
		if q.Matrix.Peak = max(q.Matrix.Peak, q.Held); !q.MayHold(q.Held) {
			return nil, promql.ErrTooManySamples("query execution")
		}
		if n.Func.Keeps {
			return selected(q, n, p, input)
		}
		return quantiles(q, n, p, input)
	}}
}

// parameterOf evaluates the parameter of n.
func parameterOf(n *plan.Aggregate, param operator.Operator) (Parameter, error) {
	if param == nil {
		return constant(n.Param), nil
	}
	rows, err := operator.Rows(param)
	if err != nil {
		return Parameter{}, err
	}
	return varying(rows[0].Values), nil
}

// Sum evaluates an aggregation that adds value to value.
type Sum struct {
	q       *operator.Query
	n       *plan.Aggregate
	input   operator.Operator
	ordered bool
	adder   *Adder
	order   []int // of the groups that have a value
}

// NewSum evaluates n. With ordered, it is noted which series of a group was the first with a
// value.
func NewSum(q *operator.Query, n *plan.Aggregate, input operator.Operator, ordered bool) *Sum {
	return &Sum{q: q, n: n, input: input, ordered: ordered}
}

// Open implements operator.Filler.
func (s *Sum) Open() (*operator.Series, error) {
	defer s.q.Holding()()
	err := operator.Drive(s.input, func(in *operator.Series) operator.Sink {
		s.adder = NewAdder(s.n, s.q, in, s.ordered)
		return s.adder
	})
	if err != nil {
		return nil, err
	}
	s.order = s.adder.Order()
	return &operator.Series{
		N: len(s.order), Labels: func(i int) labels.Labels { return s.adder.Groups.Labels[s.order[i]] },
		Rows: func() ([]plan.Row, error) {
			rows := s.adder.Rows()
			s.q.Free(s.adder, rows)
			return rows, s.q.Done() // there may be more rows
		},
	}, nil
}

// Fill implements operator.Filler.
func (s *Sum) Fill(_, i int, out dense.Row, c *dense.Counts) error {
	c.Points = s.adder.FillRow(s.order[i], out)
	return nil
}

// End implements operator.Filler.
func (s *Sum) End(_ int, err error) error {
	s.q.Free(s.adder, nil)
	return err
}

// FirstSeries lists, for each value of rows, which are all there are, the first series of the
// group that had one.
func (s *Sum) FirstSeries(rows []plan.Row) [][]int32 { return s.adder.FirstSeries(rows) }

// selected evaluates an operator that keeps some of its input's series.
func selected(q *operator.Query, n *plan.Aggregate, p Parameter, input operator.Operator) ([]plan.Row, error) {
	var s Selector = Nothing{}
	var notes []error
	none, fails := p.Check(n, func(note error) { notes = append(notes, note) })
	err := operator.Drive(input, func(in *operator.Series) operator.Sink {
		if !none && fails == nil {
			s = newSelector(n, p, q, in)
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	if fails != nil {
		return nil, fails // once the input has been evaluated without an error
	}
	for _, note := range notes { // of equal ones, the last one's position counts
		q.Note(note)
	}
	return s.Rows(q), nil
}

// counted evaluates count_values.
func counted(q *operator.Query, n *plan.Aggregate, input operator.Operator) ([]plan.Row, error) {
	in, err := operator.Rows(input)
	if err != nil {
		return nil, err
	}
	defer q.Charge(-operator.RowsBytes(in))
	return countValues(q, n, in)
}

// quantiles evaluates the quantile operator.
func quantiles(q *operator.Query, n *plan.Aggregate, p Parameter, input operator.Operator) ([]plan.Row, error) {
	in, err := input.Open()
	if err != nil {
		return nil, err
	}
	if in.Rows != nil {
		rows, err := in.Rows()
		if err != nil {
			return nil, err
		}
		defer q.Charge(-operator.RowsBytes(rows))
		return Quantiles(q, n, p, rows, in.GroupsOf(q.Context, n))
	}
	sink := newQuantiler(n, q, in)
	if err := input.Drive(sink); err != nil {
		return nil, err
	}
	return sink.Results(q, p)
}
