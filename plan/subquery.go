package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

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
