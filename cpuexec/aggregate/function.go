package aggregate

import (
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// Function is the definition of an aggregation operator: what a planner, the cores, the kernels,
// the tests and the documents know of it. Each is a call of define in the file of its family.
type Function struct {
	plan.AggregateFunc

	adds     *adding                                                                               // of operators that add value to value
	selector func(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) Selector // of those that keep series
	// check says what Prometheus's engine does about the parameter of one that keeps series, before it
	// looks at these: whether it keeps none at any step, or fails. note gets what it warns of once it
	// has evaluated the input.
	check func(p *Parameter, n *plan.Aggregate, note func(error)) (none bool, err error)

	// AnyOrder says that values do not depend on the order of the series, to the bit.
	AnyOrder bool
	// Again says whether a remote reader that aggregates gets the same from what was aggregated.
	Again Again
	// Repeats says that results at settled steps may be used again where the order of groups
	// does not show.
	Repeats bool
	// Ordinary reports whether Prometheus's engine neither warns of a parameter nor refuses it;
	// nil stands for all. Outside is what others are, in words.
	Ordinary func(param float64) bool
	Outside  string

	GPU   abi.Policy // how kernels compute the operator, or
	NoGPU string     // why they do not
}

// Again is what an operator makes of a series that has its results already.
type Again int

// What an operator makes of its results.
const (
	Otherwise Again = iota // something else
	Same                   // the same
	Rounded                // the same but for -0; the bits depend on the order of series, and on the release
	Counted                // 1; the same of as many series of ones
)

// adding is the arithmetic of an operator whose state for a group at a step has a fixed size: some
// of the columns of cells.
type adding struct {
	columns int                                        // how many it has of val, comp and n
	first   func(a *cells, from, to int, in []float64) // adds the first value to each of the cells in a row
	more    func(a *cells, from, to int, in []float64) // adds any other
	results func(a *cells, c int, out []float64)       // the aggregates of cells from c on; without a value they mean nothing
}

var table plan.Table[plan.AggregateFunc, Function]

// define adds an operator to the table.
func define(f *Function) *plan.AggregateFunc {
	if f.Adds() != (f.adds != nil) {
		panic("aggregate: " + f.Name + " has a parameter or labels, or else the arithmetic that adds value to value")
	}
	return table.Add(f.Name, &f.AggregateFunc, f)
}

// Named is the operator with a name in PromQL, or nil.
func Named(name string) *plan.AggregateFunc { return table.ByName[name] }

// Of is the definition of f.
func Of(f *plan.AggregateFunc) *Function { return table.ByPart[f] }

// Functions are all definitions, by file and in the order of each.
func Functions() []*Function { return table.All() }
