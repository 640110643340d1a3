// Package plan holds what the planner and the executors share: the nodes of a
// plan, the step grid they are evaluated on, what is known of functions, and the
// matrix an executor returns. The functions themselves are defined in cpuexec/window,
// cpuexec/aggregate and cpuexec/vector.
package plan

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Grid is the evenly spaced list of times a node is evaluated at.
type Grid struct {
	Start    int64 // first step, ms since the epoch
	Interval int64 // ms between steps, at least 1
	Steps    int   // number of steps
}

// NewGrid returns the grid of an evaluation from start to end (ms, both
// included) every interval ms. It has no steps when end is before start.
func NewGrid(start, end, interval int64) Grid {
	g := Grid{Start: start, Interval: max(interval, 1)}
	if end >= start {
		g.Steps = int((end-start)/g.Interval) + 1
	}
	return g
}

// At is the time of step k in ms since the epoch.
func (g Grid) At(k int) int64 { return g.Start + int64(k)*g.Interval }

// End is the time of the last step in ms since the epoch.
func (g Grid) End() int64 { return g.At(max(g.Steps-1, 0)) }

// Expression is a piece of the query: a node, or the selector below one.
type Expression interface {
	// Range is the position of the expression in the query.
	Range() posrange.PositionRange
	fmt.Stringer // the expression as Prometheus prints it
}

// Node is a node of a plan.
type Node interface {
	Expression
	// Inputs are the nodes whose results the node reads, in the order in which
	// Prometheus's engine evaluates them.
	Inputs() []Node
	// DropsName reports whether the node's result has lost its metric name.
	DropsName() bool
}

// Scan is a selector: which series, and where in time they are read.
type Scan struct {
	Matchers []*labels.Matcher
	Offset   int64  // ms, as written in the query
	Fixed    *int64 // the @ time in ms since the epoch, nil without one
	Pos      posrange.PositionRange
	Text     Text // the selector as Prometheus prints it
}

// Range implements Expression.
func (s *Scan) Range() posrange.PositionRange { return s.Pos }

func (s *Scan) String() string { return render(s.Text) }

// Times is the time that step at of the grid reads the selector at, in ms.
func (s *Scan) Times(at int64) int64 {
	if s.Fixed != nil {
		at = *s.Fixed
	}
	return at - s.Offset
}

// Window applies a function to the samples of each series that lie in the
// window of each step.
type Window struct {
	Scan  *Scan
	Func  *WindowFunc
	Width int64   // ms; a window is (t-Width, t]. The lookback delta for Last.
	Param float64 // of functions that have one
	// Extension says which samples beside its window a step reads.
	Extension Extension
	Trend     float64 // the second one of double_exponential_smoothing
	// Params are the parameters as scalars where they are not all constants.
	Params   []Node
	ParamPos posrange.PositionRange // of the first parameter, for annotations
	// ArgPos is the position of the function's range argument, for annotations.
	ArgPos posrange.PositionRange
	Pos    posrange.PositionRange
	Text   Text // the expression as Prometheus prints it
}

// Range implements Node.
func (w *Window) Range() posrange.PositionRange { return w.Pos }

// Inputs implements Node.
func (w *Window) Inputs() []Node { return w.Params }

// DropsName implements Node.
func (w *Window) DropsName() bool { return !w.Func.KeepsName }

func (w *Window) String() string { return render(w.Text) }

// Reads is the time range in ms, both ends included, that the window reads when
// evaluated on g.
func (w *Window) Reads(g Grid) (mint, maxt int64) {
	width, _ := w.Reach()
	maxt = w.Scan.Times(g.End()) + w.Extension.After
	return w.Scan.Times(g.Start) + w.Extension.After - width + 1, maxt
}

// Aggregate combines the series of its input into groups.
type Aggregate struct {
	Func     *AggregateFunc
	Input    Node
	Grouping []string // sorted
	Without  bool
	Param    float64 // of operators that have one
	// ParamNode is the parameter as a scalar where it is no constant.
	ParamNode Node
	ParamPos  posrange.PositionRange // for annotations
	Label     string                 // of count_values: what takes the value; unless Without, Grouping names it too
	Pos       posrange.PositionRange
	Text      Text // the expression as Prometheus prints it
}

// Range implements Node.
func (a *Aggregate) Range() posrange.PositionRange { return a.Pos }

// Inputs implements Node.
func (a *Aggregate) Inputs() []Node {
	if a.ParamNode != nil {
		return []Node{a.ParamNode, a.Input}
	}
	return []Node{a.Input}
}

// DropsName implements Node. What count_values makes is series of its own.
func (a *Aggregate) DropsName() bool { return a.Label == "" && a.Input.DropsName() }

func (a *Aggregate) String() string { return render(a.Text) }

// ReadsSamples reports whether there is a window below n, or n is one.
func ReadsSamples(n Node) bool {
	if _, ok := n.(*Window); ok {
		return true
	}
	return slices.ContainsFunc(n.Inputs(), ReadsSamples)
}

// Path returns the nodes from n down to w, both included, or nothing if w is
// not below n.
func Path(n Node, w *Window) []Node {
	if n == Node(w) {
		return []Node{n}
	}
	for _, in := range n.Inputs() {
		if p := Path(in, w); p != nil {
			return append([]Node{n}, p...)
		}
	}
	return nil
}

// Declined is the error of an executor that cannot evaluate an expression after
// all, for a reason that shows only in the data. The query is then planned again
// with that expression left to Prometheus's engine.
type Declined struct {
	At     Expression // the selector or the node
	Reason string     // one plain sentence
	Lost   int64      // samples that were decoded before this was found out
	// Merges says that an executor can evaluate it, if the node is told that it merges
	// series.
	Merges bool
}

// Error is cheap: Prometheus's engine asks for it whenever a part is declined, and the text of
// a deep expression is not.
func (d *Declined) Error() string {
	at := d.At.Range()
	if at.End-at.Start > MaxText {
		return fmt.Sprintf("an expression of %d bytes: %s", at.End-at.Start, d.Reason)
	}
	return fmt.Sprintf("%s: %s", d.At, d.Reason)
}

var _ = []Node{
	(*Window)(nil), (*Aggregate)(nil), (*Map)(nil), (*Subwindow)(nil), (*Binary)(nil), (*Set)(nil), (*Histogram)(nil), (*Absent)(nil),
	(*Relabel)(nil), (*Sort)(nil), (*Info)(nil), (*StepMap)(nil), (*Number)(nil), (*Time)(nil), (*Scalar)(nil), (*ScalarOp)(nil), (*Vector)(nil),
	(*Once)(nil), (*Nothing)(nil), (*Date)(nil), (*Failure)(nil),
}
