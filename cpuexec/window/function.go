package window

import (
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// Function is the definition of a window function: what a planner, the cores, the kernels, the
// tests and the documents know of it. Each is a call of define in the file of its family.
type Function struct {
	plan.WindowFunc

	// Plain computes the function of one window, by the floating-point operations of
	// Prometheus's function in its order. It is the twin that tests hold the other forms against,
	// and what is used where these decline.
	Plain   func(w *Window) (v float64, ok bool)
	NoPlain string // why there is none
	// Fast computes the function at all steps of a series at once: it slides, or looks at the
	// ends of windows only. It returns the number of steps with a value, or false where Plain
	// is to be used. Nil where there is nothing to gain.
	Fast func(s *Evaluator) (points int, ok bool)
	// Abreast is Fast of the twin that has Prometheus's bits, if the function is Compensated.
	Abreast func(s *Evaluator) (points int, ok bool)
	// Started is Fast for samples of which some have start timestamps, if the function reads them.
	Started func(s *Evaluator) (points int)
	// Slides is how many windows a sample may be in for a Compensated function to have Prometheus's bits.
	Slides int64
	// Whole says that it has them beyond that, too, where an Evaluator's Varies is not set.
	Whole bool
	// Extended computes the function of windows that are anchored or smoothed.
	Extended func(s *Evaluator, e *frame.Edges)
	Reads    Reads
	// Sees says what a remote reader that evaluates the function may not be without.
	Sees Sees
	// PerSecond says that what is found of a window is divided by its seconds.
	PerSecond bool

	// Ordinary reports whether parameters are such that Prometheus's engine neither warns of
	// them nor refuses them; nil stands for all. Outside is what others are, in words.
	Ordinary func(param, trend float64) bool
	Outside  string
	// Check returns Prometheus's error for parameters.
	Check func(param, trend float64) error

	GPU   abi.Policy // how kernels compute the function, or
	NoGPU string     // why they do not

	bits *plan.WindowFunc // of a Compensated function; see Bits
}

// Reads says which samples of a packed column a function unpacks.
type Reads int

// What a function reads of packed columns.
const (
	Unpacked Reads = iota // all, before anything else
	Ends                  // those at the ends of windows, and at resets
	Integers              // all, as the integers that they are
	Times                 // none: their times alone
)

// table has the definitions as Go makes them, by file and line. Kernels' numbers of them go by that,
// so no definition may need a variable of this package that is made as the program starts: Go would
// make those first that need none.
var table plan.Table[plan.WindowFunc, Function]

// define adds a function of range vectors to the table, and of a Compensated one the twin with
// Prometheus's bits.
func define(f *Function) *plan.WindowFunc {
	if f.Exactness == plan.Compensated {
		twin := *f
		twin.Exactness, twin.Fast, twin.Reads = plan.BitIdentical, f.Abreast, Unpacked
		twin.GPU, twin.NoGPU = abi.Policy{}, "exact=bits has the cores make Prometheus's operations in their order"
		f.bits = table.AddUnnamed(&twin.WindowFunc, &twin)
	}
	return table.Add(f.Name, &f.WindowFunc, f)
}

// Bits is the function with f's name whose values have Prometheus's bits: f, or its twin.
func Bits(f *plan.WindowFunc) *plan.WindowFunc {
	if bits := Of(f).bits; bits != nil {
		return bits
	}
	return f
}

// defineUnnamed adds a function that the planner does not look up by its name.
func defineUnnamed(f *Function) *plan.WindowFunc { return table.AddUnnamed(&f.WindowFunc, f) }

// Named is the function of range vectors with a name in PromQL, or nil.
func Named(name string) *plan.WindowFunc { return table.ByName[name] }

// Of is the definition of f.
func Of(f *plan.WindowFunc) *Function { return table.ByPart[f] }

// Functions are all definitions, by file and in the order of each.
func Functions() []*Function { return table.All() }

// Names are the names in PromQL of the functions of range vectors, in alphabetical order.
func Names() []string { return table.Names() }
