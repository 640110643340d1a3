package plan

import (
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Binary applies an arithmetic operator or a comparison to the pairs of series
// of two inputs that match.
type Binary struct {
	Func     *MapFunc
	LHS, RHS Node
	Bool     bool // a comparison yields 0 or 1
	// Matching says which series match, which side may have several for one of
	// the other, and which labels it takes from that one.
	Matching *parser.VectorMatching
	Pos      posrange.PositionRange
	Text     Text // the expression as Prometheus prints it
}

// Range implements Node.
func (b *Binary) Range() posrange.PositionRange { return b.Pos }

// Inputs implements Node.
func (b *Binary) Inputs() []Node { return []Node{b.LHS, b.RHS} }

// DropsName implements Node. Arithmetic removes the names there and then, and a
// comparison that filters makes its inputs' flags be forgotten.
func (b *Binary) DropsName() bool { return b.Bool }

// Filters reports whether the operator drops values rather than change them.
func (b *Binary) Filters() bool { return b.Func.Compares && !b.Bool }

func (b *Binary) String() string { return render(b.Text) }

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
	Op       SetOp
	LHS, RHS Node
	Matching *parser.VectorMatching
	// MixedTypes says that one side's series are to lose what belongs to a name in the end, which
	// matters where they have a type or unit.
	MixedTypes bool
	Pos        posrange.PositionRange
	Text       Text // the expression as Prometheus prints it
}

// ReasonMixed is why an or is left to Prometheus's engine.
const ReasonMixed = "names are to be removed later from the series of one of its sides only"

// Range implements Node.
func (s *Set) Range() posrange.PositionRange { return s.Pos }

// Inputs implements Node.
func (s *Set) Inputs() []Node { return []Node{s.LHS, s.RHS} }

// DropsName implements Node. The planner leaves an or alone whose sides differ
// in this, where it matters.
func (s *Set) DropsName() bool { return s.LHS.DropsName() }

func (s *Set) String() string { return render(s.Text) }
