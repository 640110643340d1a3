package plan

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Absent is 1 at the steps at which no series of its input has a value.
type Absent struct {
	Input  Node
	Labels labels.Labels // of the result
	// OverTime says that it is absent_over_time, whose input says where
	// windows have a sample.
	OverTime bool
	Pos      posrange.PositionRange
	Text     Text // the expression as Prometheus prints it
}

// Range implements Node.
func (a *Absent) Range() posrange.PositionRange { return a.Pos }

// Inputs implements Node.
func (a *Absent) Inputs() []Node { return []Node{a.Input} }

// DropsName implements Node.
func (a *Absent) DropsName() bool { return a.OverTime }

func (a *Absent) String() string { return render(a.Text) }
