package vector

import (
	"errors"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// Stream is the operator of a node whose values can be had a series at a time, and of the
// chain above it.
type Stream struct {
	Query *operator.Query
	Of    operator.Filler
	Above Chain

	series int
	held   int // before it was opened
}

// Open implements operator.Operator.
func (s *Stream) Open() (*operator.Series, error) {
	s.held = s.Query.Held
	below, err := s.Of.Open()
	if err != nil {
		return nil, err
	}
	s.series = below.N
	if len(s.Above) == 0 {
		return below, nil
	}
	at, err := LabelsAfter(s.Query, below.N, below.Labels, s.Above)
	if err != nil {
		return nil, err
	}
	out := &operator.Series{N: below.N, Labels: at}
	if below.Rows != nil && s.Above.RelabelsOnly() {
		out.Rows = func() ([]plan.Row, error) {
			rows, err := below.Rows()
			for i := range rows {
				rows[i].Labels = at(i)
			}
			return rows, err
		}
	}
	return out, nil
}

// Drive implements operator.Operator.
func (s *Stream) Drive(out operator.Sink) error {
	l := &operator.Loop{Query: s.Query, Out: out, N: s.series, Maps: s.Above.Mappers(), Fill: s.Of.Fill}
	err := l.Run()
	left := l.Left()
	if err := s.Of.End(left[0], err); err != nil {
		return err
	}
	return s.Above.Check(s.Query, left, s.series, s.held)
}

// Merged makes one row of those that become the same in n, which merges them. in is n as an
// operator that leaves them apart.
func Merged(q *operator.Query, n plan.Node, in operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Leaks: !Releases(n), Eval: func() ([]plan.Row, error) {
		rows, err := operator.Rows(in)
		if err != nil && !errors.As(err, new(promql.ErrTooManySamples)) {
			return nil, err
		}
		return MergeWithin(q, n, rows, err, true)
	}}
}
