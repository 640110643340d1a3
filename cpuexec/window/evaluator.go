// Package window turns the samples of a series into one value a step.
//
// A Call, which is a Function and its parameters, and the samples of a series (column.Samples) go
// into an Evaluator; a dense.Row comes out. Where windows begin and end, and all else that depends on
// the times of the samples alone, is a frame.Frame. Each function has one definition (function.go),
// and each family of them a file: rate.go (rate, increase, delta), pairs.go (irate, idelta, resets,
// changes), sums.go (and means), variances.go, regression.go, quantiles.go, extremes.go, smoothing.go,
// each.go (of the ends of a window) and instant.go; extended.go is for windows that are extended,
// starts.go for samples with start timestamps. Plain forms are called in plain.go; what slides from
// one window to the next is decided in sliding.go; abreast.go has windows added up side by side: those
// with many samples in common in rows (exact.Rows), others eight at a time, also of several series.
//
// Each function makes the floating-point operations of Prometheus's function of that name in its
// order, or others of which it is shown that they yield the same bits; Compensated ones stay
// within 1e-12.
//
// Start with Function and Evaluator.Evaluate.
package window

import (
	"sort"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/plan"
)

// Call is a window function and its parameters.
type Call struct {
	Func *Function
	plan.Parameters
	Varying Varying
}

// Varying are the parameters of a window function by step, where not all of them are
// constants.
type Varying [2][]float64

// Evaluator evaluates window functions over the samples of one series after another. It
// holds the scratch memory of one goroutine.
type Evaluator struct {
	series               // that is evaluated
	window  Window       // of it, for plain forms
	single  frame.Frame  // over the times of one series alone
	bounds  frame.Bounds // of the frame in use, with a watch of this evaluator's
	fixed   exact.Fixed
	running exact.Running
	order   exact.Ranks
	keys    exact.Largest[int64]
	units   exact.Largest[uint32]
	side    exact.Sums  // of windows side by side
	rows    exact.Rows  // of windows with many samples in common
	lines   frame.Lines // of the frame that had lines last
	waiting waiting     // windows of series before this one
	joined  []float64   // packed values, unpacked
	indices []int32     // of samples
	began   []int32     // samples that start timestamps say something of
	merged  []int32     // indices of two kinds, or steps
	upTo    []int64     // sums of the values before each
	squares []uint64    // and of their squares, or products with times
	offsets []uint32    // of values
	seconds []float64   // times of samples, or values at origins
	bunch   []float64   // values of a bunch of steps

	// Counts are the samples of each step, nil where they are not asked for.
	Counts *frame.StepCounts
	// Overlaps counts the steps with start timestamps that overlap; the caller resets it.
	Overlaps uint64
	// Varies says that a mean since Reset may have other bits where other steps are evaluated.
	Varies bool
	noted  []uint64 // bitmap of the steps with a quantile that may be none
}

// series is one series while it is evaluated.
type series struct {
	call  *Call
	fr    *frame.Frame
	in    column.Samples
	split int // the first step without packed samples
	out   dense.Row
}

// Reset begins an evaluation.
func (s *Evaluator) Reset() {
	s.noted, s.Overlaps, s.Counts, s.waiting.group.N, s.Varies = nil, 0, nil, 0, false
	s.waiting.copies = s.waiting.copies[:0]
}

// Evaluate fills out, which has no values yet, with what is called over the windows of in,
// and says in c what limits and statistics need of them. On a grid of one step Finish must follow.
// Its error is that of Prometheus's function.
func (s *Evaluator) Evaluate(frames *frame.Frames, fn *Call, in column.Samples, out dense.Row, c *dense.Counts) error {
	*c = dense.Counts{}
	if in.Times.Len() == 0 {
		return nil
	}
	if fn.Func.Reads == Ends {
		in.Prefetch(frames.Span.Grid.Steps)
	}
	fr := frames.Over(in.Times, &s.single)
	s.series = series{call: fn, fr: fr, in: in, split: fr.From, out: out}
	err := s.evaluate(c)
	s.series = series{}
	return err
}

// evaluate evaluates the series by the form that its samples and windows ask for.
func (s *Evaluator) evaluate(c *dense.Counts) error {
	f, fr := s.call.Func, s.fr
	if f.Reads == Ends {
		s.split = s.splitPacked()
	}
	if !f.Instant {
		*c = fr.Counts
	}
	interpolated := &f.WindowFunc == Interpolated
	if s.Counts != nil && !interpolated { // of which Prometheus's engine counts no samples
		s.Counts.Add(&fr.Bounds, f.Instant)
	}
	if fr.Span.Extension.Modifier != plan.Unmodified {
		e := fr.Edges(interpolated)
		f.Extended(s, e)
		c.Points = e.Points
		return nil
	}
	s.bounds = fr.Watched(fr.Span.Done)
	if f.Started != nil && len(s.in.Starts) > 0 {
		c.Points = f.Started(s)
		return nil
	}
	if f.Check != nil && s.call.Varying[0] == nil {
		if err := f.Check(s.call.Param, s.call.Trend); err != nil && c.MaxWindow > 0 {
			return err
		}
	}
	ok := false
	if f.Fast != nil {
		c.Points, ok = f.Fast(s)
	}
	if !ok {
		c.Points = s.plain()
	}
	return nil
}

// resets returns the samples in windows that are less than the one before, as indices. The memory is
// the evaluator's.
func (s *Evaluator) resets() []int32 {
	s.indices = s.in.Resets(s.fr.Lo, s.fr.Hi, s.indices[:0])
	return s.indices
}

// splitPacked is for functions that look at samples at the ends of each window alone and, where a
// counter was reset, at those around that: of a packed column, which may have many more samples than
// there are steps, only these are unpacked. It returns the first step with samples behind the packed
// ones, and puts all samples into in.Values that this and later steps read, and the last packed one:
// at their places, what is before them means nothing. The memory is the evaluator's.
func (s *Evaluator) splitPacked() int {
	in, fr := &s.in, s.fr
	if in.Units == nil {
		return fr.From
	}
	known := len(in.Units)
	split := fr.From + sort.Search(fr.To-fr.From, func(k int) bool { return int(fr.Hi[fr.From+k]) > known })
	from := known - 1
	if split < fr.To {
		from = min(from, int(fr.Lo[split]))
	}
	in.UnpackFrom(from, &s.joined)
	return split
}
