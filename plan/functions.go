package plan

// Exactness says how close to Prometheus's own an executor's answer must be.
type Exactness int

const (
	// BitIdentical functions return the very bits Prometheus returns.
	BitIdentical Exactness = iota
	// Compensated functions add floats in an order of their own, compensated,
	// and stay within 1e-12 relative of Prometheus's answer.
	Compensated
)

func (e Exactness) String() string {
	if e == Compensated {
		return "within 1e-12 relative"
	}
	return "bit-identical"
}

// WindowFunc describes a function over the samples in a window.
type WindowFunc struct {
	Name      string
	Exactness Exactness
	Instant   bool // an instant selector: the newest sample within the lookback delta
	Counter   bool // for counters: warns about metrics that do not look like one
	PerSecond bool // divides by the window's width in seconds
	DropsName bool // the result has no metric name
	StartTime bool // reads start timestamps where the engine uses them
}

// AggregateFunc describes an aggregation operator.
type AggregateFunc struct {
	Name      string
	Exactness Exactness
}

// Windows is the table of window functions, by PromQL name. The instant
// selector, which has no name in PromQL, is Last.
var Windows = map[string]*WindowFunc{
	"rate":     {Name: "rate", Counter: true, PerSecond: true, DropsName: true, StartTime: true},
	"increase": {Name: "increase", Counter: true, DropsName: true, StartTime: true},
}

// Last is the instant selector.
var Last = &WindowFunc{Name: "last", Instant: true}

// Aggregates is the table of aggregation operators, by PromQL name. The CPU
// adds in Prometheus's order, so all of them are bit-identical there.
var Aggregates = map[string]*AggregateFunc{
	"sum":   {Name: "sum"},
	"avg":   {Name: "avg"},
	"min":   {Name: "min"},
	"max":   {Name: "max"},
	"count": {Name: "count"},
	"group": {Name: "group"},
}
