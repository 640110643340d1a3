package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// Date is a function of dates without an argument: it tells of the time of the step.
// It has one series, without labels, with a value at every step.
type Date struct {
	Func *MapFunc
	Pos  posrange.PositionRange
	Text Text // the expression as Prometheus prints it
}

// Range implements Node.
func (d *Date) Range() posrange.PositionRange { return d.Pos }

// Inputs implements Node.
func (d *Date) Inputs() []Node { return nil }

// DropsName implements Node.
func (d *Date) DropsName() bool { return false }

func (d *Date) String() string { return render(d.Text) }
