package plan

import (
	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Aggregate combines the series of its input into groups.
type Aggregate struct {
	Origin
	Func     *AggregateFunc
	Input    Node
	Grouping []string // sorted
	Without  bool
	Param    float64 // of operators that have one
	// ParamNode is the parameter as a scalar where it is no constant.
	ParamNode Node
	ParamPos  posrange.PositionRange // for annotations
	Label     string                 // of count_values: what takes the value; unless Without, Grouping names it too
}

// Inputs implements Node.
func (a *Aggregate) Inputs() []Node {
	if a.ParamNode != nil {
		return []Node{a.ParamNode, a.Input}
	}
	return []Node{a.Input}
}

// DropsName implements Node. What count_values makes is series of its own.
func (a *Aggregate) DropsName() bool { return a.Label == "" && a.Input.DropsName() }

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
	Unary
	Func *MapFunc
	Args []float64
	Swap bool // the constant is the operator's left side
	Bool bool // a comparison yields 0 or 1
	// Scalars is the number of constants that the query writes as expressions
	// of their own; Prometheus's engine holds their samples beside the input's.
	Scalars int
}

// DropsName implements Node. A comparison that filters leaves names alone.
func (m *Map) DropsName() bool { return !m.Filters() || m.Input.DropsName() }

// Filters reports whether the map drops values rather than change them.
func (m *Map) Filters() bool { return m.Func.Compares && !m.Bool }

// Binary applies an arithmetic operator or a comparison to the pairs of series
// of two inputs that match.
type Binary struct {
	Origin
	Func     *MapFunc
	LHS, RHS Node
	Bool     bool // a comparison yields 0 or 1
	// Matching says which series match, which side may have several for one of
	// the other, and which labels it takes from that one.
	Matching *parser.VectorMatching
}

// Inputs implements Node.
func (b *Binary) Inputs() []Node { return []Node{b.LHS, b.RHS} }

// DropsName implements Node. Arithmetic removes the names there and then, and a
// comparison that filters makes its inputs' flags be forgotten.
func (b *Binary) DropsName() bool { return b.Bool }

// SetOp is an operator on two sets of series.
type SetOp int

// The operators on sets of series.
const (
	And SetOp = iota
	Or
	Unless
)

// SetOps are the operators on sets by PromQL name.
var SetOps = map[string]SetOp{"and": And, "or": Or, "unless": Unless}

// Set keeps the values of its left side, or adds those of its right side, by
// whether the other side has a matching series at the step.
type Set struct {
	Origin
	Op       SetOp
	LHS, RHS Node
	Matching *parser.VectorMatching
	// MixedTypes says that one side's series are to lose what belongs to a name in the end, which
	// matters where they have a type or unit.
	MixedTypes bool
	// AsRight says that series lose their names in the end if those of the right side do. Those of
	// the left side have none.
	AsRight bool
}

// ReasonMixed is why an or is left to Prometheus's engine.
const ReasonMixed = "names are to be removed later from the series of one of its sides only"

// Inputs implements Node.
func (s *Set) Inputs() []Node { return []Node{s.LHS, s.RHS} }

// DropsName implements Node. The planner leaves an or alone whose sides differ
// in this, where it matters.
func (s *Set) DropsName() bool {
	if s.AsRight {
		return s.RHS.DropsName()
	}
	return s.LHS.DropsName()
}

// Histogram computes one value for each classic histogram among the series of
// its input: those that differ in nothing but the label le. histogram_quantiles
// computes one for each of its arguments.
type Histogram struct {
	Origin
	Func  *HistogramFunc
	Args  []float64 // histogram_quantile: φ; histogram_fraction: lower and upper bound
	Input Node
	Label string // of histogram_quantiles: what takes the argument
	// ArgNodes are the arguments as scalars where they are not all constants.
	ArgNodes []Node
	// ArgPos is the position of the first constant, InputPos that of the input,
	// both for annotations.
	ArgPos, InputPos posrange.PositionRange
	ArgsPos          []posrange.PositionRange // of all constants of histogram_quantiles
}

// HistogramFunc describes a function of classic histograms.
type HistogramFunc struct {
	Name string
	Args int  // scalars before the input
	Many bool // has a result for each of its arguments, which come after the input
}

// Many reports whether the function has a result for each of its arguments.
func (h *Histogram) Many() bool { return h.Func.Many }

// Results is the number of series of the result for each histogram.
func (h *Histogram) Results() int {
	if h.Many() {
		return len(h.Args)
	}
	return 1
}

// Inputs implements Node.
func (h *Histogram) Inputs() []Node {
	return append(h.ArgNodes[:len(h.ArgNodes):len(h.ArgNodes)], h.Input)
}

// DropsName implements Node.
func (*Histogram) DropsName() bool { return true }

// Relabel sets a label of each series of its input and leaves the values alone:
// label_replace, or label_join where there is no regular expression.
type Relabel struct {
	Unary
	Label  string   // the label that is set
	Source []string // labels that its value is made of; of label_replace one

	Regexp    *regexp.Regexp // what the source must match, wholly
	Template  string         // of the value, with groups of Regexp
	Separator string         // of label_join
}

// DropsName implements Node. A name that is set stays.
func (r *Relabel) DropsName() bool { return r.Label != model.MetricNameLabel && r.Input.DropsName() }

// Sort orders the series of its input, which shows at a single step only.
type Sort struct {
	Unary
	Name   string   // of the function
	Labels []string // that series are sorted by, if not by value
	// Ranged says that the start and the end of the evaluation differ, in which
	// case Prometheus's engine warns and series come in any order.
	Ranged bool
}

// Absent is 1 at the steps at which no series of its input has a value.
type Absent struct {
	Unary
	Labels labels.Labels // of the result
	// OverTime says that it is absent_over_time, whose input says where
	// windows have a sample.
	OverTime bool
}

// DropsName implements Node.
func (a *Absent) DropsName() bool { return a.OverTime }

// Info is the function info: it adds to the series of its input the labels of the info
// series that have the same identifying labels. Which those are depends on the input's
// series, so they are no input.
type Info struct {
	Unary
	// Names are the matchers of the info series' names, at least one of which can say yes,
	// and Data the query's other matchers: of the labels that are added, if there are any.
	Names, Data []*labels.Matcher
	Lookback    int64 // ms, for samples of the info series
}

// Window applies a function to the info series that the matchers select.
func (n *Info) Window(matchers []*labels.Matcher, f *WindowFunc) *Window {
	return &Window{
		Scan:   &Scan{Matchers: matchers, Origin: n.Origin},
		Func:   f,
		Width:  n.Lookback,
		ArgPos: n.Pos, Origin: n.Origin,
	}
}

// The nodes below that stand for scalars have one series, without labels, with a
// value at every step.

// Number is a scalar that is the same at every step.
type Number struct {
	Origin
	Value float64
}

// Time is the time of the step in seconds since the epoch.
type Time struct{ Origin }

// Scalar is the value of its input at the steps at which that has one series,
// and NaN at the others.
type Scalar struct {
	Origin
	Input Node
}

// ScalarOp applies an operator, or a function of two scalars, to them. A comparison
// yields 0 or 1.
type ScalarOp struct {
	Origin
	Func     *MapFunc
	LHS, RHS Node
}

// Vector is a scalar as a vector.
type Vector struct {
	Origin
	Input Node
}

// StepMap is a map whose scalars are not all constants.
type StepMap struct {
	Origin
	Func *MapFunc
	// Operands are the vector and the scalars, in the order of the expression.
	Operands []Node
	Vector   int  // which of them is the vector
	Bool     bool // a comparison yields 0 or 1
}

// Filters reports whether the map drops values rather than change them.
func (m *StepMap) Filters() bool { return m.Func.Compares && !m.Bool }

// Inputs implements Node.
func (s *Scalar) Inputs() []Node { return []Node{s.Input} }

// Inputs implements Node.
func (o *ScalarOp) Inputs() []Node { return []Node{o.LHS, o.RHS} }

// Inputs implements Node.
func (v *Vector) Inputs() []Node { return []Node{v.Input} }

// Inputs implements Node.
func (m *StepMap) Inputs() []Node { return m.Operands }

// DropsName implements Node. A comparison that filters leaves names alone.
func (m *StepMap) DropsName() bool { return !m.Filters() || m.Operands[m.Vector].DropsName() }

// Date is a function of dates without an argument: it tells of the time of the step.
// It has one series, without labels, with a value at every step.
type Date struct {
	Origin
	Func *MapFunc
}

// Nothing is the input of a subquery without steps: it has no series.
type Nothing struct {
	Origin
}

// Failure is an expression that Prometheus's engine fails at before it reads anything.
type Failure struct {
	Origin
	Err error
}
