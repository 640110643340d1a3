package operator

import "github.com/promwarp/promwarp/plan"

// Spent returns op as an operator that lets go of it, and so of all that it holds, when it was
// driven. What is above op lives until it has driven its other inputs, and no longer counts
// op's memory.
func Spent(op Operator) Operator { return &spent{op} }

type spent struct{ op Operator }

// Open implements Operator.
func (s *spent) Open() (*Series, error) {
	series, err := s.op.Open()
	if err != nil || series.Rows == nil {
		return series, err
	}
	out := *series
	out.Rows = func() ([]plan.Row, error) {
		s.op = nil
		return series.Rows()
	}
	return &out, nil
}

// Drive implements Operator.
func (s *spent) Drive(out Sink) error {
	op := s.op
	s.op = nil
	return op.Drive(out)
}
