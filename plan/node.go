// Package plan holds what the planner and the executors share: the nodes of a
// plan, the step grid they are evaluated on, what is known of functions, and the
// matrix an executor returns. The functions themselves are defined in cpuexec/window,
// cpuexec/aggregate and cpuexec/vector.
package plan

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
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

// Origin is where an expression stands in the query, and its text. All nodes have one, and with it
// the methods of scalars and constants.
type Origin struct {
	Pos  posrange.PositionRange
	Text Text // the expression as Prometheus prints it
}

// Range implements Expression.
func (o *Origin) Range() posrange.PositionRange { return o.Pos }

func (o *Origin) String() string { return render(o.Text) }

// Inputs implements Node.
func (o *Origin) Inputs() []Node { return nil }

// DropsName implements Node.
func (o *Origin) DropsName() bool { return false }

// Unary is a node of one input. It leaves the names of its series alone.
type Unary struct {
	Origin
	Input Node
}

// Inputs implements Node.
func (u *Unary) Inputs() []Node { return []Node{u.Input} }

// DropsName implements Node.
func (u *Unary) DropsName() bool { return u.Input.DropsName() }

// Text is an expression as Prometheus prints it: a string, or a fmt.Stringer, such as the
// expression itself, that is rendered when it is asked for. Few queries ask for it, and the
// texts of a deep tree are together far longer than the query.
type Text any

func render(t Text) string {
	switch t := t.(type) {
	case string:
		return t
	case fmt.Stringer:
		return t.String()
	}
	return ""
}

// MaxText is the most bytes that an expression may take up in a query to be printed whole.
const MaxText = 1000

// Scan is a selector: which series, and where in time they are read.
type Scan struct {
	Origin
	Matchers []*labels.Matcher
	Offset   int64  // ms, as written in the query
	Fixed    *int64 // the @ time in ms since the epoch, nil without one
}

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
	Origin
	Scan  *Scan
	Func  *WindowFunc
	Width int64 // ms; a window is (t-Width, t]. The lookback delta for Last.
	Parameters
	// Extension says which samples beside its window a step reads.
	Extension Extension
	// ArgPos is the position of the function's range argument, for annotations.
	ArgPos posrange.PositionRange
}

// Parameters are the scalar parameters of a window function.
type Parameters struct {
	Param float64 // of functions that have one
	Trend float64 // the second one of double_exponential_smoothing
	// Params are the parameters as scalars where they are not all constants, on the grid of the
	// node itself.
	Params   []Node
	ParamPos posrange.PositionRange // of the first parameter, for annotations
}

// Inputs implements Node.
func (w *Window) Inputs() []Node { return w.Params }

// DropsName implements Node.
func (w *Window) DropsName() bool { return !w.Func.KeepsName }

// Reads is the time range in ms, both ends included, that the window reads when
// evaluated on g.
func (w *Window) Reads(g Grid) (mint, maxt int64) {
	width, _ := w.Reach()
	maxt = w.Scan.Times(g.End()) + w.Extension.After
	return w.Scan.Times(g.Start) + w.Extension.After - width + 1, maxt
}

// Extension says which samples beside its window a step reads. A window of
// (t-Width, t] is extended to (t-Width-Before, t+After].
type Extension struct {
	Modifier      Modifier
	Before, After int64 // ms
}

// NewExtension is the extension of windows with a modifier.
func NewExtension(m Modifier, lookback int64) Extension {
	switch m {
	case Anchored:
		return Extension{Modifier: m, Before: lookback}
	case Smoothed:
		return Extension{Modifier: m, Before: lookback, After: lookback}
	default:
		return Extension{}
	}
}

// Reach says what a step at t reads: the samples of (t-offset-width, t-offset], in ms.
// Of a selector with @ the offset means nothing.
func (w *Window) Reach() (width, offset int64) {
	e := w.Extension
	return w.Width + e.Before + e.After, w.Scan.Offset - e.After
}

// ReadsStarts reports whether start timestamps matter to the window where the engine
// uses them. Rates of windows that are extended do without.
func (w *Window) ReadsStarts() bool {
	return w.Func.StartTime && (w.Extension.Modifier == Unmodified || !w.Func.Counter)
}

// Subwindow applies a window function to the steps of a subquery: its input is
// evaluated on a grid of its own, and the points are the samples of the windows.
type Subwindow struct {
	Origin
	Input  Node
	Inner  Grid // of the input
	Func   *WindowFunc
	Width  int64  // ms; a window is (t-Width, t]
	Offset int64  // ms
	Fixed  *int64 // the @ time in ms since the epoch, nil without one
	Parameters
}

// Inputs implements Node.
func (s *Subwindow) Inputs() []Node { return append([]Node{s.Input}, s.Params...) }

// GridOf is the grid of one of the inputs when the node is on g.
func (s *Subwindow) GridOf(input Node, g Grid) Grid {
	if input == s.Input {
		return s.Inner
	}
	return g
}

// DropsName implements Node.
func (s *Subwindow) DropsName() bool { return !s.Func.KeepsName || s.Input.DropsName() }

// Once evaluates its input at the first step alone and repeats what comes out at all
// steps: an expression that does not depend on the step, as with @.
type Once struct{ Unary }

// Grid is the grid of the input when the node is on g.
func (o *Once) Grid(g Grid) Grid {
	g.Steps = min(g.Steps, 1)
	return g
}

// Declined is the error of an executor that cannot evaluate an expression after
// all, for a reason that shows only in the data. Prometheus's engine then evaluates
// the whole query.
type Declined struct {
	At     Expression // the selector or the node
	Reason string     // one plain sentence
	Lost   int64      // samples that were decoded before this was found out
	// Merges says that an executor can evaluate it, if it is told that series become the same.
	Merges bool
}

// Error is cheap, which the text of a deep expression is not.
func (d *Declined) Error() string {
	at := d.At.Range()
	if at.End-at.Start > MaxText {
		return fmt.Sprintf("an expression of %d bytes: %s", at.End-at.Start, d.Reason)
	}
	return fmt.Sprintf("%s: %s", d.At, d.Reason)
}

// Ended returns Prometheus's error for a query whose context has ended: an ErrQueryTimeout at
// its deadline, an ErrQueryCanceled else, and nil while it has not.
func Ended(ctx context.Context) error { return EndedIn(ctx, "expression evaluation") }

// EndedIn is Ended, with the name that Prometheus's engine gives what the query was doing.
func EndedIn(ctx context.Context, where string) error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return promql.ErrQueryTimeout(where)
	default:
		return promql.ErrQueryCanceled(where)
	}
}
