package plan

import (
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Subwindow applies a window function to the steps of a subquery: its input is
// evaluated on a grid of its own, and the points are the samples of the windows.
type Subwindow struct {
	Input  Node
	Inner  Grid // of the input
	Func   *WindowFunc
	Width  int64  // ms; a window is (t-Width, t]
	Offset int64  // ms
	Fixed  *int64 // the @ time in ms since the epoch, nil without one
	Param  float64
	Trend  float64 // the second parameter of double_exponential_smoothing
	// Params are the parameters as scalars where they are not all constants, on the grid
	// of the node itself.
	Params   []Node
	ParamPos posrange.PositionRange // of the first parameter, for annotations
	Pos      posrange.PositionRange
	Text     Text // the expression as Prometheus prints it
}

// Range implements Node.
func (s *Subwindow) Range() posrange.PositionRange { return s.Pos }

// Inputs implements Node.
func (s *Subwindow) Inputs() []Node { return append([]Node{s.Input}, s.Params...) }

// GridOf is the grid of one of the inputs when the node is on g.
func (s *Subwindow) GridOf(input Node, g Grid) Grid {
	if input == s.Input {
		return s.Inner
	}
	return g
}

// DropsName implements Node.
func (s *Subwindow) DropsName() bool { return !s.Func.KeepsName || s.Input.DropsName() }

func (s *Subwindow) String() string { return render(s.Text) }

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
