package vector

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// Function is the definition of a map, a function or an operator that looks at one value at a
// time: what a planner, the cores, the kernels, the tests and the documents know of it. Each is
// a call of define in the file of its family.
type Function struct {
	plan.MapFunc

	// value returns the function of one value with constants, if it is a function.
	// vector is the same of four values, where there is one.
	value  func(args []float64) func(v float64) float64
	vector exact.Vector
	// arithmetic is the operator of two values, if it yields one, and loop the same of many
	// pairs, where that is faster.
	arithmetic func(a, b float64) float64
	loop       func(out, lhs, rhs []float64)
	// mask is the comparison of up to 64 pairs of values: bit k says that it holds for pair k.
	// mirror is its name with the sides swapped.
	mask   func(lhs, rhs []float64) uint64
	mirror string

	// Drops reports whether nothing is left of any value with such constants; nil stands for no.
	Drops func(args []float64) bool

	GPU       abi.Policy                          // how kernels compute the map, to the same bits, or
	NoGPU     string                              // why they do not
	Swapped   abi.Policy                          // the same of an operator whose constant is on its left
	Constants func(args []float64) (a, b float64) // what kernels are told; nil stands for the constants as they are
}

var table plan.Table[plan.MapFunc, Function]

// define adds a map to the table.
func define(f *Function) *plan.MapFunc { return table.Add(f.Name, &f.MapFunc, f) }

// defineUnnamed adds a map that the planner does not look up by its name.
func defineUnnamed(f *Function) *plan.MapFunc { return table.AddUnnamed(&f.MapFunc, f) }

// Named is the map with a name in PromQL, or nil; neg is unary minus.
func Named(name string) *plan.MapFunc { return table.ByName[name] }

// Of is the definition of f.
func Of(f *plan.MapFunc) *Function { return table.ByPart[f] }

// Functions are all definitions, by file and in the order of each.
func Functions() []*Function { return table.All() }

// Names are the names of the maps in PromQL, in alphabetical order.
func Names() []string { return table.Names() }

// Call is the definition of a function that is neither one of windows nor of single values nor of
// classic histograms.
type Call struct {
	Name string
	// Node is of the type of node that a call becomes, with what the function says of it.
	Node plan.Node
	// Window is how the function reads a selector that it is called with; nil if it does so as others do.
	Window *plan.WindowFunc
	// Pattern is the number of the argument that is a regular expression, counted from 0; 0 for none.
	Pattern int
}

var calls plan.Table[Call, Call]

var (
	_ = defineCall(&Call{Name: "absent", Node: &plan.Absent{}})
	_ = defineCall(&Call{Name: window.Present.Name, Node: &plan.Absent{OverTime: true}, Window: window.Present})
	_ = defineCall(&Call{Name: window.Timestamp.Name, Node: &plan.Window{}, Window: window.Timestamp})
	_ = defineCall(&Call{Name: window.StartTimestamp.Name, Node: &plan.Window{}, Window: window.StartTimestamp})
	_ = defineCall(&Call{Name: "label_replace", Node: &plan.Relabel{}, Pattern: 4})
	_ = defineCall(&Call{Name: "label_join", Node: &plan.Relabel{}})
	_ = defineCall(&Call{Name: "info", Node: &plan.Info{}})
	_ = defineCall(&Call{Name: "sort", Node: &plan.Sort{}})
	_ = defineCall(&Call{Name: "sort_desc", Node: &plan.Sort{}})
	_ = defineCall(&Call{Name: "sort_by_label", Node: &plan.Sort{}})
	_ = defineCall(&Call{Name: "sort_by_label_desc", Node: &plan.Sort{}})
	_ = defineCall(&Call{Name: "vector", Node: &plan.Vector{}})
)

// Functions whose results are scalars.
var (
	_ = defineCall(&Call{Name: "scalar", Node: &plan.Scalar{}})
	_ = defineCall(&Call{Name: "time", Node: &plan.Time{}})
	_ = defineCall(&Call{Name: "pi", Node: &plan.Number{Value: math.Pi}})
	_ = defineScalar("min_of", math.Min)
	_ = defineScalar("max_of", math.Max)
)

func defineCall(c *Call) *Call { return calls.Add(c.Name, c, c) }

// defineScalar defines a function of two scalars.
func defineScalar(name string, f func(a, b float64) float64) *Call {
	of := defineUnnamed(&Function{MapFunc: plan.MapFunc{Name: name, Args: 1}, arithmetic: f, NoGPU: "it is of scalars"})
	return defineCall(&Call{Name: name, Node: &plan.ScalarOp{Func: of}})
}

// Called is the definition of the Call with a name in PromQL; of others its Node is nil.
func Called(name string) Call {
	if c := calls.ByName[name]; c != nil {
		return *c
	}
	return Call{}
}

// Calls are all definitions of Call.
func Calls() []*Call { return calls.All() }
