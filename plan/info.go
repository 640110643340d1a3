package plan

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Info is the function info: it adds to the series of its input the labels of the info
// series that have the same identifying labels. Which those are depends on the input's
// series, so they are no input.
type Info struct {
	Input Node
	// Names are the matchers of the info series' names, at least one of which can say yes,
	// and Data the query's other matchers: of the labels that are added, if there are any.
	Names, Data []*labels.Matcher
	// Lookback, Offset and Fixed say where in time the info series are read, as those of
	// an instant selector's window and its scan do.
	Lookback, Offset int64
	Fixed            *int64
	Pos              posrange.PositionRange
	Text             Text // the expression as Prometheus prints it
}

// Window applies a function to the info series that the matchers select.
func (n *Info) Window(matchers []*labels.Matcher, f *WindowFunc) *Window {
	return &Window{
		Scan:   &Scan{Matchers: matchers, Offset: n.Offset, Fixed: n.Fixed, Pos: n.Pos, Text: n.Text},
		Func:   f,
		Width:  n.Lookback,
		ArgPos: n.Pos, Pos: n.Pos, Text: n.Text,
	}
}

// Range implements Node.
func (n *Info) Range() posrange.PositionRange { return n.Pos }

// Inputs implements Node.
func (n *Info) Inputs() []Node { return []Node{n.Input} }

// DropsName implements Node.
func (n *Info) DropsName() bool { return n.Input.DropsName() }

func (n *Info) String() string { return render(n.Text) }
