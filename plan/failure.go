package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// Failure is an expression that Prometheus's engine fails at before it reads anything.
type Failure struct {
	Err  error
	Pos  posrange.PositionRange
	Text Text // the expression as Prometheus prints it
}

// Range implements Node.
func (f *Failure) Range() posrange.PositionRange { return f.Pos }

// Inputs implements Node.
func (f *Failure) Inputs() []Node { return nil }

// DropsName implements Node.
func (f *Failure) DropsName() bool { return false }

func (f *Failure) String() string { return render(f.Text) }
