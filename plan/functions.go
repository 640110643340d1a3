package plan

import (
	"fmt"
	"maps"
	"slices"
)

// Exactness says how close to Prometheus's own an executor's answer must be.
type Exactness int

const (
	// BitIdentical functions return the very bits Prometheus returns.
	BitIdentical Exactness = iota
	// Compensated functions add up in an order of their own, without loss, and
	// stay within Tolerance of Prometheus's answer.
	Compensated
)

// Tolerance is how far values of Compensated functions may be from Prometheus's, relative.
const Tolerance = 1e-12

// Exact says how exact answers are to be.
type Exact string

// The values of Exact; empty means whatever is the default.
const (
	WithinTolerance Exact = "1e-12" // as the Exactness of functions says
	Bits            Exact = "bits"  // Prometheus's, at the cost of windows that are added up anew
)

// UnmarshalText reads one of the values, or the empty text.
func (e *Exact) UnmarshalText(text []byte) error {
	if *e = Exact(text); *e != "" && *e != WithinTolerance && *e != Bits {
		return fmt.Errorf("unknown exactness %.100q: use %s or %s", text, WithinTolerance, Bits)
	}
	return nil
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
	Labels    bool // makes labels of values
}

// Adds reports whether the operator adds value to value, so that its state for
// a group at a step has a fixed size.
func (f *AggregateFunc) Adds() bool { return !f.Param && !f.Labels }

// Modifier is what a range selector says about the ends of its windows.
type Modifier int

const (
	// Unmodified windows are made of the samples in them.
	Unmodified Modifier = iota
	// Anchored windows begin with the newest sample at or before their start.
	Anchored
	// Smoothed windows begin and end with values on the lines between the samples
	// around their ends.
	Smoothed
)

// Table holds definitions of functions, of type F, each with the part P of it that plans refer to, in
// the file of its family. They go in while packages are initialised, and are only looked up
// afterwards. The zero value is empty.
type Table[P, F any] struct {
	all    []*F
	ByPart map[*P]*F     // the definition that a part is of
	ByName map[string]*P // the part of the definition with a name
}

// Add adds a definition and returns its part. Two definitions of one name panic.
func (t *Table[P, F]) Add(name string, part *P, f *F) *P {
	if t.ByName[name] != nil {
		panic(fmt.Sprintf("%s has two definitions", name))
	}
	if t.ByName == nil {
		t.ByName = map[string]*P{}
	}
	t.ByName[name] = part
	return t.AddUnnamed(part, f)
}

// AddUnnamed adds a definition that is not looked up by a name.
func (t *Table[P, F]) AddUnnamed(part *P, f *F) *P {
	if t.ByPart == nil {
		t.ByPart = map[*P]*F{}
	}
	t.all = append(t.all, f)
	t.ByPart[part] = f
	return part
}

// All lists all definitions, by file and in the order of each.
func (t *Table[P, F]) All() []*F { return slices.Clone(t.all) }

// Names lists the names in alphabetical order.
func (t *Table[P, F]) Names() []string { return slices.Sorted(maps.Keys(t.ByName)) }
