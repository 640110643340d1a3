package cpuexec

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

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
