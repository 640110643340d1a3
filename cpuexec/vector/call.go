package vector

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

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

// Those that are scalars.
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
	if c := calls.Named(name); c != nil {
		return *c
	}
	return Call{}
}

// Calls are all definitions of Call.
func Calls() []*Call { return calls.All() }
