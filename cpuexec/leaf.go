package cpuexec

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Leaf is a window, or an aggregation over one, that is offered to an accelerator. It does
// not change once it is made. What Prometheus says of its series, and of what comes out,
// the cores add to the outcome.
type Leaf struct {
	Aggregate *plan.Aggregate // nil where the values of the window itself are asked for
	Maps      []*plan.Map     // that stand between the two, the lowest first
	Window    *plan.Window
	Grid      plan.Grid
	Selection *selection.Selection
	GroupOf   []int32 // the group of each series
	Groups    int
	Rooms     []int // of topk and bottomk, how many series each group keeps at a step
	// Starts says that some samples have start timestamps that the window reads.
	Starts bool

	done  func() error
	start time.Time // when the leaf was made
}

// newLeaf returns the leaf of a window alone, without the groups of its series.
func (s *selected) newLeaf() *Leaf {
	r, sel := s.r, s.src.sel
	return &Leaf{
		Window: s.w, Grid: r.job.Grid, Selection: sel, Starts: r.readsStarts(s.w, sel), done: r.Done, start: time.Now(),
	}
}

// windowLeaf returns the leaf of a window alone. All its series are in one group.
func (s *selected) windowLeaf() *Leaf {
	l := s.newLeaf()
	l.Groups = 1
	l.GroupOf = selection.SeriesNote(s.src.sel.Notes(), oneGroupKey{}, func() oneGroup { return make(oneGroup, len(s.series)) })
	return l
}

// aggregationLeaf returns the leaf of a window, the chain above it and an aggregation, or
// nil where the chain is not made of maps.
func (s *selected) aggregationLeaf(a aggregate.Layout) *Leaf {
	l := s.newLeaf()
	for _, n := range s.above {
		m, ok := n.(*plan.Map)
		if !ok {
			return nil
		}
		l.Maps = append(l.Maps, m)
	}
	l.Aggregate, l.GroupOf, l.Groups, l.Rooms = a.Node, a.GroupOf, a.Groups, a.Rooms
	return l
}

// oneGroupKey is the key of the note on a selection's series in one group.
type oneGroupKey struct{}

// oneGroup is that note: the group of each series.
type oneGroup []int32

// SizeBytes implements selection.Sized.
func (g oneGroup) SizeBytes() int64 { return 4 * int64(len(g)) }

// Node is what is computed.
func (l *Leaf) Node() plan.Node {
	if l.Aggregate != nil {
		return l.Aggregate
	}
	return l.Window
}

// Done returns a *QueryError if the query has ended, or may take no more memory.
func (l *Leaf) Done() error { return ofQuery(l.done()) }

// DecodedShare is the share, from 0 to 1, of the series that the cores have kept
// decoded. It looks at some of them.
func (l *Leaf) DecodedShare() float64 {
	n := l.Selection.NumSeries()
	looked, kept := 0, 0
	for i := 0; i < n; i += max(1, n/64) {
		looked++
		if column.IsDecoded(l.Selection.Memo(i)) {
			kept++
		}
	}
	return float64(kept) / float64(max(looked, 1))
}

// errOpened ends the evaluation of a job whose leaf was wanted only.
var errOpened = errors.New("the leaf is open")

// opener is an accelerator that notes the leaf and computes nothing.
type opener struct{ leaf *Leaf }

func (o *opener) Aggregates(*plan.Aggregate) bool { return true }

func (o *opener) Accepts(plan.Node) bool { return true }

func (o *opener) OnCores(*Leaf, time.Duration) {}

func (o *opener) Evaluate(_ context.Context, l *Leaf, _ func(Rows) error) (Outcome, error) {
	o.leaf = l
	return Outcome{}, errOpened
}

// OpenLeaf fetches and groups what the job's node, a window or an aggregation over one,
// reads. It returns the leaf that an accelerator would be offered.
func (x *Executor) OpenLeaf(ctx context.Context, job Job) (*Leaf, error) {
	o := &opener{}
	job.Accelerator = o
	_, err := x.Run(ctx, job)
	if errors.Is(err, errOpened) {
		return o.leaf, nil
	}
	return nil, err
}

// Accelerator computes leaves in place of the cores. The cores evaluate all else of a job.
type Accelerator interface {
	// Aggregates reports whether aggregations of that form are leaves as a whole, with
	// the window below them. Of others the window alone is.
	Aggregates(n *plan.Aggregate) bool
	// Accepts reports whether a leaf, by its node, may be worth offering. It is called
	// once for each.
	Accepts(n plan.Node) bool
	// Evaluate computes a leaf, or declines it. The rows of a window alone go to
	// consume, in the order of the series, from one goroutine at a time and from none
	// once Evaluate has returned; after a decline, the cores go on behind the last
	// row that consume got. consume is nil for an aggregation, whose Results come
	// back. An error, one of consume among them, ends the query. What goes wrong with
	// the accelerator itself is a reason to decline.
	Evaluate(ctx context.Context, l *Leaf, consume func(Rows) error) (Outcome, error)
	// OnCores tells how long the cores took for a leaf that Evaluate declined.
	OnCores(l *Leaf, took time.Duration)
}

// Outcome is what became of a leaf that was offered to an accelerator.
type Outcome struct {
	// Declined says in one plain sentence why the cores evaluate the leaf; empty if the
	// accelerator computed it.
	Declined string
	// WindowOnly says of an aggregation that was declined that its window alone may
	// be computed.
	WindowOnly bool
	// Results are those of an aggregation.
	Results Results
	// Work is what was read: chunks, samples and bytes.
	Work plan.Work
}

// Results are what was computed of an aggregation. They belong to the caller.
type Results struct {
	// Counts are those of the window, one a series.
	Counts []SeriesCounts
	// Kept is how many values of each series each map has left, by map and series.
	// Maps that do not filter have nil.
	Kept [][]uint32
	// Values has one for each group and step, Absent where there is none. Of topk and
	// bottomk it has Prometheus's heaps: group by group and step by step as many
	// elements as the leaf's Rooms says. There Series says which series each value is
	// of, and Filled how many elements the heap of each group and step has. The values
	// of bottomk have their signs changed.
	Values []float64
	Series []int32
	Filled []int32
	// All are the samples in the windows of each step, over all series, and Fresh those
	// of them that no earlier step had.
	All, Fresh []int64
}

// Rows are the values of consecutive series of a window alone. Whoever consumes them
// may change them.
type Rows struct {
	// Values are a series' values at all steps, and then the next one's. They come in
	// parts of Each series; the last may have fewer.
	Values  [][]float64
	Each    int
	Present []uint64 // a bitmap each of the steps that have a value, in whole words
	Counts  []SeriesCounts
	// All are the samples in the windows of each step, over these series, and Fresh
	// those of them that no earlier step had.
	All, Fresh []int64
	// Release, if it is set, frees the memory of the values. It is called once: when the
	// matrix that holds the values is released, or before consume returns if no matrix
	// holds them. Without Release the caller may reuse the memory once consume returns.
	Release func()
}

// SeriesCounts are what Prometheus's limit on samples needs of a series.
type SeriesCounts struct {
	Points uint32 // steps with a value
	Most   uint32 // samples in the largest window
	Last   uint32 // samples in the last window
}

// Absent is the bits of a value that is not there: Prometheus's stale marker, which no
// function returns.
const Absent = dense.Absent

// QueryError is an error of the query itself: it has ended, or has reached a limit. It
// says nothing about the accelerator in which it came up.
type QueryError struct{ Err error }

func (e *QueryError) Error() string { return e.Err.Error() }

func (e *QueryError) Unwrap() error { return e.Err }

// ofQuery marks err, if there is one, as an error of the query.
func ofQuery(err error) error {
	if err == nil {
		return nil
	}
	return &QueryError{err}
}

// queryError returns the query's own error, if err is one or the query has ended, or else
// err.
func (r *evaluation) queryError(err error) error {
	var q *QueryError
	if errors.As(err, &q) {
		return q.Err
	}
	if ended := r.Done(); ended != nil {
		return ended
	}
	return err
}
