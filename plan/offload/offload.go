// Package offload is what requests and accelerators both speak of.
//
// A Leaf goes to an Accelerator: chunks, windows over them, a grouping, and what is made of these,
// which says the package whose leaf it is: cpuexec of a query, resample of a request. Rows come back
// while it is computed, and at the end an Outcome, which may be that the cores are to compute it.
//
// A leaf does not change once it is made, and its values have the same bits on every executor.
//
// Start with Accelerator.
package offload

import (
	"context"
	"time"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Accelerator computes leaves in place of the cores.
type Accelerator interface {
	// Suits says why it computes no leaf like this one at present, whatever the data, or nothing.
	// The leaf needs no Input.
	Suits(l Leaf) string
	// Evaluate computes a leaf, or declines it. Rows go to consume, in order, from one goroutine
	// at a time and from none once Evaluate has returned. It also declines after some rows have
	// been consumed. An error, one of consume among them, ends the request. What goes wrong with
	// the accelerator itself is a reason to decline.
	Evaluate(ctx context.Context, l Leaf, consume func(*Rows) error) (Outcome, error)
	// OnCores tells how long the cores took for a leaf that Evaluate declined.
	OnCores(l Leaf, took time.Duration)
}

// Leaf is what an accelerator is offered.
type Leaf interface {
	// In is what the leaf reads.
	In() *Input
	// Selector is the text of what selects the leaf's series.
	Selector() string
	// Unsuited says why no GPU computes a leaf like this one, whatever the data, or nothing.
	Unsuited() string
	// Size estimates how much work the leaf is.
	Size() Size
}

// Input is what all leaves have.
type Input struct {
	Selection *selection.Selection
	From, To  int64        // ms; the samples that are read, both included
	Windows   int          // of each series: steps, or buckets
	GroupOf   []int32      // the group of each series
	Groups    int          // at least one, if there are series
	Forced    bool         // the accelerator is to compute it whatever is expected to be faster
	Ended     func() error // why the request has ended; nil while it has not
}

// In returns what the leaf reads.
func (in *Input) In() *Input { return in }

// Size is how much work a leaf is.
type Size struct {
	Function string // what the leaf makes: leaves with the same one take alike long
	Series   int64
	Samples  int64   // in its chunks
	Decoded  float64 // share of them, from 0 to 1, that the cores retain decoded
	Missing  int64   // bytes that must be copied to the device first
	Windows  int64   // of all series
	Results  int64   // bytes that are copied back from the device
}

// sampledSeries is the least number of series whose chunks Size adds up, where there are more. It adds up fewer
// than twice that number. Where these have more than sampledChunks chunks, it adds up about as many chunks, of at
// least an eighth of sampledSeries.
const sampledSeries, sampledChunks = 512, 8192

// sizeKey is what the size of a selection's chunks depends on.
type sizeKey struct{ from, to int64 }

// Size is the size of the chunks that are read, as estimated from some of the series. No chunk
// counts as resident.
func (in *Input) Size() Size {
	s := selection.Note(in.Selection.Notes, sizeKey{in.From, in.To}, in.measure)
	s.Windows = s.Series * int64(in.Windows)
	return s
}

// measure is Size, without windows.
func (in *Input) measure() Size {
	n := in.Selection.NumSeries()
	every := max(1, n/sampledSeries, min(n/(sampledSeries/8), in.Selection.NumChunks()/sampledChunks))
	series, samples, bytes := 0, int64(0), int64(0)
	for i := 0; i < n; i += every {
		series++
		for _, c := range in.Selection.Overlapping(i, in.From, in.To) {
			samples += int64(c.Samples)
			bytes += int64(c.Len)
		}
	}
	scale := float64(n) / float64(max(series, 1))
	return Size{
		Series: int64(n), Samples: int64(float64(samples) * scale), Missing: int64(float64(bytes) * scale),
	}
}

// Outcome is what became of a leaf.
type Outcome struct {
	// Declined says in one plain sentence why the cores are to compute the leaf; empty if it was
	// computed.
	Declined string
	// WindowOnly says of a query's aggregation that was declined that its window alone may be
	// computed.
	WindowOnly bool
	Reason     string       // why the accelerator has computed it
	Choice     *plan.Choice // what was expected and what it took; nil if nothing was estimated

	Work    plan.Work // what was read: chunks, samples and bytes
	Runs    int64     // of a resample request
	Results Results   // of a query's aggregation
}

// Results are what was computed of a query's aggregation. They belong to the caller.
type Results struct {
	// Counts are those of the window, one a series. Release, if it is set, frees the memory of counts and
	// values: once, when the result that holds the values is released.
	Counts  []SeriesCounts
	Release func()
	// Kept is how many values of each series each map has left, by map and series.
	// Maps that do not filter have nil.
	Kept [][]uint32
	// Values has one for each group and step, a stale marker where there is none. Of topk and
	// bottomk it has Prometheus's heaps: group by group and step by step as many
	// elements as the leaf's Rooms says. There Series says which series each value is
	// of, and Filled how many elements the heap of each group and step has. The values
	// of bottomk have their signs changed.
	Values []float64
	Series []int32
	Filled []int32
	// All are the samples in the windows of each step, over all series, and Fresh those
	// of them that no earlier step had. Both are empty unless the leaf asks for them.
	All, Fresh []int64
}

// SeriesCounts are what Prometheus's limit on samples needs of a series.
type SeriesCounts struct {
	Points uint32 // steps with a value
	Most   uint32 // samples in the largest window
	Last   uint32 // samples in the last window
}

// Rows are values that were computed: of a query the consecutive series of a window that is not
// aggregated, of a resample request some groups. The consumer may change them.
type Rows struct {
	// Values come in parts of Each series or groups; the last may have fewer. A part has for each
	// of them a value a window, and of a request that for each aggregate, one behind the other.
	Values [][]float64
	Each   int
	// Present are bitmaps, in whole words for each series or group, of the windows that have a value.
	// A query has one, and a request one for each state.
	Present [][]uint64
	// Release, if it is set, frees the memory of the values. It is called once: when the result
	// that holds the values is released, or before consume returns if no result holds them.
	// Without Release the caller may reuse the memory once consume returns.
	Release func()

	Groups []int32 // of a request, whose rows they are
	// Counts are those of a query's series, All the samples in the windows of each step, over these
	// series, and Fresh those of them that no earlier step had.
	Counts     []SeriesCounts
	All, Fresh []int64
}
