package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// The nodes below that stand for scalars have one series, without labels, with a
// value at every step.

// Number is a scalar that is the same at every step.
type Number struct {
	Value float64
	Pos   posrange.PositionRange
	Text  Text // the expression as Prometheus prints it
}

// Time is the time of the step in seconds since the epoch.
type Time struct{ Pos posrange.PositionRange }

// Scalar is the value of its input at the steps at which that has one series,
// and NaN at the others.
type Scalar struct {
	Input Node
	Pos   posrange.PositionRange
	Text  Text // the expression as Prometheus prints it
}

// ScalarOp applies an operator, or a function of two scalars, to them. A comparison
// yields 0 or 1.
type ScalarOp struct {
	Func     *MapFunc
	LHS, RHS Node
	Pos      posrange.PositionRange
	Text     Text // the expression as Prometheus prints it
}

// Vector is a scalar as a vector.
type Vector struct {
	Input Node
	Pos   posrange.PositionRange
	Text  Text // the expression as Prometheus prints it
}

// StepMap is a map whose scalars are not all constants.
type StepMap struct {
	Func *MapFunc
	// Operands are the vector and the scalars, in the order of the expression.
	Operands []Node
	Vector   int  // which of them is the vector
	Bool     bool // a comparison yields 0 or 1
	Merges   bool // see Map
	Pos      posrange.PositionRange
	Text     Text // the expression as Prometheus prints it
}

// Filters reports whether the map drops values rather than change them.
func (m *StepMap) Filters() bool { return m.Func.Compares && !m.Bool }

// Range implements Node.
func (n *Number) Range() posrange.PositionRange { return n.Pos }

// Range implements Node.
func (t *Time) Range() posrange.PositionRange { return t.Pos }

// Range implements Node.
func (s *Scalar) Range() posrange.PositionRange { return s.Pos }

// Range implements Node.
func (o *ScalarOp) Range() posrange.PositionRange { return o.Pos }

// Range implements Node.
func (v *Vector) Range() posrange.PositionRange { return v.Pos }

// Range implements Node.
func (m *StepMap) Range() posrange.PositionRange { return m.Pos }

// Inputs implements Node.
func (n *Number) Inputs() []Node { return nil }

// Inputs implements Node.
func (t *Time) Inputs() []Node { return nil }

// Inputs implements Node.
func (s *Scalar) Inputs() []Node { return []Node{s.Input} }

// Inputs implements Node.
func (o *ScalarOp) Inputs() []Node { return []Node{o.LHS, o.RHS} }

// Inputs implements Node.
func (v *Vector) Inputs() []Node { return []Node{v.Input} }

// Inputs implements Node.
func (m *StepMap) Inputs() []Node { return m.Operands }

// DropsName implements Node.
func (n *Number) DropsName() bool { return false }

// DropsName implements Node.
func (t *Time) DropsName() bool { return false }

// DropsName implements Node.
func (s *Scalar) DropsName() bool { return false }

// DropsName implements Node.
func (o *ScalarOp) DropsName() bool { return false }

// DropsName implements Node.
func (v *Vector) DropsName() bool { return false }

// DropsName implements Node. A comparison that filters leaves names alone.
func (m *StepMap) DropsName() bool { return !m.Filters() || m.Operands[m.Vector].DropsName() }

func (n *Number) String() string { return render(n.Text) }

func (t *Time) String() string { return "time()" }

func (s *Scalar) String() string { return render(s.Text) }

func (o *ScalarOp) String() string { return render(o.Text) }

func (v *Vector) String() string { return render(v.Text) }

func (m *StepMap) String() string { return render(m.Text) }
