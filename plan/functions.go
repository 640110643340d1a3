package plan

// Exactness says how close to Prometheus's own an executor's answer must be.
type Exactness int

const (
	// BitIdentical functions return the very bits Prometheus returns.
	BitIdentical Exactness = iota
	// Compensated functions add up in an order of their own, without loss, and
	// stay within 1e-12 relative of Prometheus's answer.
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
	Instant   bool       // an instant selector: the newest sample within the lookback delta
	Modifiers []Modifier // those of range selectors that the function takes
	Counter   bool       // warns about metrics that do not look like counters
	KeepsName bool       // the result keeps the metric name
	StartTime bool       // reads start timestamps where the engine uses them
	Param     Param
}

// Param says which scalar parameters a window function has beside the range
// vector, and on which side of it.
type Param int

// The places of a function's scalar parameters.
const (
	NoParam Param = iota
	ParamBefore
	ParamAfter
	TwoParamsAfter
)

// Count is the number of parameters.
func (p Param) Count() int {
	return [...]int{NoParam: 0, ParamBefore: 1, ParamAfter: 1, TwoParamsAfter: 2}[p]
}

// AggregateFunc describes an aggregation operator.
type AggregateFunc struct {
	Name      string
	Exactness Exactness
	Param     bool // has a scalar as its parameter
	Keeps     bool // keeps some of its input's series as they are
	Device    bool // GPUs compute it together with the window below it
}

// Adds reports whether the operator adds value to value, so that its state for
// a group at a step has a fixed size.
func (f *AggregateFunc) Adds() bool { return !f.Param && f.Name != "count_values" }

// Windows is the table of window functions, by PromQL name. The instant
// selector, which has no name in PromQL, is Last. GPUs compute all of them.
var Windows = table(
	&WindowFunc{Name: "rate", Counter: true, StartTime: true, Modifiers: []Modifier{Anchored, Smoothed}},
	&WindowFunc{Name: "increase", Counter: true, StartTime: true, Modifiers: []Modifier{Anchored, Smoothed}},
	&WindowFunc{Name: "delta", Modifiers: []Modifier{Anchored, Smoothed}},
	&WindowFunc{Name: "irate", StartTime: true},
	&WindowFunc{Name: "idelta"},
	&WindowFunc{Name: "deriv", Exactness: Compensated},
	&WindowFunc{Name: "predict_linear", Param: ParamAfter, Exactness: Compensated},
	&WindowFunc{Name: "changes", Modifiers: []Modifier{Anchored}},
	&WindowFunc{Name: "resets", StartTime: true, Modifiers: []Modifier{Anchored}},
	&WindowFunc{Name: "sum_over_time"},
	&WindowFunc{Name: "avg_over_time", Exactness: Compensated},
	&WindowFunc{Name: "min_over_time"},
	&WindowFunc{Name: "max_over_time"},
	&WindowFunc{Name: "count_over_time"},
	&WindowFunc{Name: "present_over_time"},
	&WindowFunc{Name: "first_over_time", KeepsName: true},
	&WindowFunc{Name: "last_over_time", KeepsName: true},
	&WindowFunc{Name: "stddev_over_time", Exactness: Compensated},
	&WindowFunc{Name: "stdvar_over_time", Exactness: Compensated},
	&WindowFunc{Name: "quantile_over_time", Param: ParamBefore},
	&WindowFunc{Name: "mad_over_time"},
	&WindowFunc{Name: "double_exponential_smoothing", Param: TwoParamsAfter},
	&WindowFunc{Name: "ts_of_first_over_time"},
	&WindowFunc{Name: "ts_of_last_over_time"},
	&WindowFunc{Name: "ts_of_min_over_time"},
	&WindowFunc{Name: "ts_of_max_over_time"},
)

// Last is the instant selector.
var Last = &WindowFunc{Name: "last", Instant: true, KeepsName: true}

// Timestamp is the function timestamp of an instant selector: the time of the
// sample that the selector yields.
var Timestamp = &WindowFunc{Name: "timestamp", Instant: true}

// StartTimestamp is the function start_timestamp of an instant selector: the start
// timestamp of the sample that the selector yields.
var StartTimestamp = &WindowFunc{Name: "start_timestamp", Instant: true, StartTime: true}

// Interpolated is a smoothed instant selector: the value at the step on the line
// between the samples around it, or of the newest one if none comes after.
var Interpolated = &WindowFunc{Name: "interpolated", KeepsName: true}

func table(fs ...*WindowFunc) map[string]*WindowFunc {
	t := make(map[string]*WindowFunc, len(fs))
	for _, f := range fs {
		t[f.Name] = f
	}
	return t
}

// Aggregates is the table of aggregation operators, by PromQL name. The CPU
// adds in Prometheus's order, so all of them are bit-identical there.
var Aggregates = map[string]*AggregateFunc{
	"sum":   {Name: "sum", Device: true},
	"avg":   {Name: "avg", Device: true},
	"min":   {Name: "min", Device: true},
	"max":   {Name: "max", Device: true},
	"count": {Name: "count", Device: true},
	"group": {Name: "group", Device: true},

	"stddev":   {Name: "stddev", Device: true},
	"stdvar":   {Name: "stdvar", Device: true},
	"quantile": {Name: "quantile", Param: true, Device: true},

	"topk":         {Name: "topk", Param: true, Keeps: true, Device: true},
	"bottomk":      {Name: "bottomk", Param: true, Keeps: true, Device: true},
	"limitk":       {Name: "limitk", Param: true, Keeps: true},
	"limit_ratio":  {Name: "limit_ratio", Param: true, Keeps: true},
	"count_values": {Name: "count_values"},
}
