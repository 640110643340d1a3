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
	Device    bool // GPUs compute it, to the same bits, between a window and what aggregates that
}

// Maps is the table of functions and operators of one value, by PromQL name;
// neg is unary minus. All are bit-identical on the CPU, where they are the same
// functions of Go's math package that Prometheus calls.
var Maps = mapTable(
	&MapFunc{Name: "+", Args: 1, Device: true}, &MapFunc{Name: "-", Args: 1, Device: true}, &MapFunc{Name: "*", Args: 1, Device: true}, &MapFunc{Name: "/", Args: 1, Device: true},
	&MapFunc{Name: "%", Args: 1}, &MapFunc{Name: "^", Args: 1}, &MapFunc{Name: "atan2", Args: 1},
	&MapFunc{Name: "==", Args: 1, Compares: true, Device: true}, &MapFunc{Name: "!=", Args: 1, Compares: true, Device: true},
	&MapFunc{Name: ">", Args: 1, Compares: true, Device: true}, &MapFunc{Name: "<", Args: 1, Compares: true, Device: true},
	&MapFunc{Name: ">=", Args: 1, Compares: true, Device: true}, &MapFunc{Name: "<=", Args: 1, Compares: true, Device: true},
	&MapFunc{Name: "neg", Device: true},
	&MapFunc{Name: "abs", Device: true}, &MapFunc{Name: "ceil", Device: true}, &MapFunc{Name: "floor", Device: true}, &MapFunc{Name: "sgn", Device: true},
	&MapFunc{Name: "round", Args: 1, Optional: 1, Default: 1, Device: true},
	&MapFunc{Name: "clamp", Args: 2, Device: true}, &MapFunc{Name: "clamp_min", Args: 1, Device: true}, &MapFunc{Name: "clamp_max", Args: 1, Device: true},
	&MapFunc{Name: "sqrt", Device: true}, &MapFunc{Name: "exp"}, &MapFunc{Name: "ln"}, &MapFunc{Name: "log2"}, &MapFunc{Name: "log10"},
	&MapFunc{Name: "sin"}, &MapFunc{Name: "cos"}, &MapFunc{Name: "tan"},
	&MapFunc{Name: "asin"}, &MapFunc{Name: "acos"}, &MapFunc{Name: "atan"},
	&MapFunc{Name: "sinh"}, &MapFunc{Name: "cosh"}, &MapFunc{Name: "tanh"},
	&MapFunc{Name: "asinh"}, &MapFunc{Name: "acosh"}, &MapFunc{Name: "atanh"},
	&MapFunc{Name: "deg", Device: true}, &MapFunc{Name: "rad", Device: true},
	&MapFunc{Name: "minute"}, &MapFunc{Name: "hour"}, &MapFunc{Name: "month"}, &MapFunc{Name: "year"}, &MapFunc{Name: "days_in_month"},
	&MapFunc{Name: "day_of_week"}, &MapFunc{Name: "day_of_month"}, &MapFunc{Name: "day_of_year"},
)

// StepTime is the function timestamp of anything but a selector: the time of the step.
var StepTime = &MapFunc{Name: "timestamp"}

func mapTable(fs ...*MapFunc) map[string]*MapFunc {
	t := make(map[string]*MapFunc, len(fs))
	for _, f := range fs {
		t[f.Name] = f
	}
	return t
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
