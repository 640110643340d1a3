package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// Sorts are the functions that sort series.
var Sorts = map[string]bool{"sort": true, "sort_desc": true, "sort_by_label": true, "sort_by_label_desc": true}

// Sort orders the series of its input, which shows at a single step only.
type Sort struct {
	Input  Node
	Name   string   // of the function
	Labels []string // that series are sorted by, if not by value
	// Ranged says that the start and the end of the evaluation differ, in which
	// case Prometheus's engine warns and series come in any order.
	Ranged bool
	Pos    posrange.PositionRange
	Text   Text // the expression as Prometheus prints it
}

// Range implements Node.
func (s *Sort) Range() posrange.PositionRange { return s.Pos }

// Inputs implements Node.
func (s *Sort) Inputs() []Node { return []Node{s.Input} }

// DropsName implements Node.
func (s *Sort) DropsName() bool { return s.Input.DropsName() }

func (s *Sort) String() string { return render(s.Text) }
