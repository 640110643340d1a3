package plan

import "github.com/prometheus/prometheus/promql/parser/posrange"

// MapFunc describes a function or operator that looks at one value at a time.
type MapFunc struct {
	Name      string
	Exactness Exactness
	Compares  bool // keeps or drops a value, unless it is asked for 0 or 1
	Args      int  // constants beside the value
	Optional  int  // of them may be missing, and then is Default
	Default   float64
	InPlace   bool // changes its input in place: Prometheus's engine holds no more samples meanwhile
}

// Map applies a function to every value of its input.
type Map struct {
	Func  *MapFunc
	Input Node
	Args  []float64
	Swap  bool // the constant is the operator's left side
	Bool  bool // a comparison yields 0 or 1
	// Scalars is the number of constants that the query writes as expressions
	// of their own; Prometheus's engine holds their samples beside the input's.
	Scalars int
	// Merges says that series of the result may be the same, which Prometheus's engine
	// merges.
	Merges bool
	Pos    posrange.PositionRange
	Text   Text // the expression as Prometheus prints it
}

// Range implements Node.
func (m *Map) Range() posrange.PositionRange { return m.Pos }

// Inputs implements Node.
func (m *Map) Inputs() []Node { return []Node{m.Input} }

// DropsName implements Node. A comparison that filters leaves names alone.
func (m *Map) DropsName() bool { return !m.Filters() || m.Input.DropsName() }

// Filters reports whether the map drops values rather than change them.
func (m *Map) Filters() bool { return m.Func.Compares && !m.Bool }

func (m *Map) String() string { return render(m.Text) }
