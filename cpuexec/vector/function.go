package vector

import (
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// Function is the definition of a map, a function or an operator that looks at one value at a
// time: what a planner, the cores, the kernels, the tests and the documents know of it. Each is
// a call of define in the file of its family.
type Function struct {
	plan.MapFunc

	// value returns the function of one value with constants, if it is a function.
	value func(args []float64) func(v float64) float64
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
func Named(name string) *plan.MapFunc { return table.Named(name) }

// Of is the definition of f.
func Of(f *plan.MapFunc) *Function { return table.Of(f) }

// Functions are all definitions, by file and in the order of each.
func Functions() []*Function { return table.All() }

// Names are the names of the maps in PromQL, in alphabetical order.
func Names() []string { return table.Names() }
