package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// Once evaluates its input at the first step alone and repeats what comes out at all
// steps: an expression that does not depend on the step, as with @.
type Once struct {
	Input Node
	Pos   posrange.PositionRange
	Text  Text // the expression as Prometheus prints it
}

// Grid is the grid of the input when the node is on g.
func (o *Once) Grid(g Grid) Grid {
	g.Steps = min(g.Steps, 1)
	return g
}

// Range implements Node.
func (o *Once) Range() posrange.PositionRange { return o.Pos }

// Inputs implements Node.
func (o *Once) Inputs() []Node { return []Node{o.Input} }

// DropsName implements Node.
func (o *Once) DropsName() bool { return o.Input.DropsName() }

func (o *Once) String() string { return render(o.Text) }

// Nothing is the input of a subquery without steps: it has no series.
type Nothing struct {
	Pos  posrange.PositionRange
	Text Text // the expression as Prometheus prints it
}

// Range implements Node.
func (n *Nothing) Range() posrange.PositionRange { return n.Pos }

// Inputs implements Node.
func (n *Nothing) Inputs() []Node { return nil }

// DropsName implements Node.
func (n *Nothing) DropsName() bool { return false }

func (n *Nothing) String() string { return render(n.Text) }
