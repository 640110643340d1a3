// Package window turns the samples of a series into one value a step.
//
// A Call, which is a function of plan.Windows or an instant selector and its parameters, and the
// samples of a series (column.Samples) go into an Evaluator; a dense.Row comes out. What depends
// on the times of the samples alone, where windows begin and end and what rates are extrapolated
// by, is a frame: Frames finds it once for all series that have the same times. Each family of
// functions has a file: extrapolate.go (rate, increase, delta), pairs.go (irate, idelta, resets,
// changes), sums.go, variance.go, regression.go, quantiles.go, extremes.go, smoothing.go, each.go
// (what looks at each window anew) and instant.go; edges.go is for windows that are extended,
// starts.go for samples with start timestamps.
//
// Each function makes the floating-point operations of Prometheus's function of that name in its
// order, or others of which it is shown that they yield the same bits; those that plan.Windows
// calls Compensated stay within 1e-12.
//
// Start with Evaluator.Evaluate.
package window

import (
	"fmt"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// Call is a window function and its parameters.
type Call struct {
	Func         *plan.WindowFunc
	Param, Trend float64
	Varying      Varying
}

// Varying are the parameters of a window function by step, where not all of them are
// constants.
type Varying [2][]float64

// Evaluator evaluates window functions over the samples of one series after another. It
// holds the scratch memory of one goroutine.
type Evaluator struct {
	single  frame  // over the times of one series alone
	bounds  bounds // of the frame in use, with a watch of this evaluator's
	fixed   exact.Fixed
	order   exact.Ranks
	joined  []float64 // packed values, unpacked
	indices []int32   // of samples
	began   []int32   // samples that start timestamps say something of
	merged  []int32   // indices of two kinds
	upTo    []int64   // sums of the values before each
	values  []float64 // for functions that sort

	// Steps are the samples per step, less those of frames that have not been counted yet.
	Steps StepCounts
	// Overlaps counts the steps with start timestamps that overlap; the caller resets it.
	Overlaps uint64
	noted    []uint64 // bitmap of the steps with a quantile that may be none
}

// Reset begins an evaluation at so many steps.
func (s *Evaluator) Reset(steps int) {
	s.noted, s.Overlaps = nil, 0
	s.single.used.Store(0)
	for _, c := range []*[]int64{&s.Steps.All, &s.Steps.Fresh} {
		if cap(*c) < steps {
			*c = make([]int64, steps)
		}
		*c = (*c)[:steps]
		clear(*c)
	}
}

// CountSamples adds the samples of the series evaluated by themselves to those per step.
func (s *Evaluator) CountSamples() { s.single.countSamples(s.Steps) }

// Evaluate fills out, which has no values yet, with what is called over the windows of in,
// and says in c what limits and statistics need of them. Its error is that of Prometheus's
// function.
func (s *Evaluator) Evaluate(frames *Frames, fn *Call, in column.Samples, out dense.Row, c *dense.Counts) error {
	f := fn.Func
	*c = dense.Counts{}
	if in.Times.Len() == 0 {
		return nil
	}
	fr := frames.over(in.Times, &s.single, s.Steps)
	split := fr.from // steps before it have packed samples
	if atEnds(f) {
		split = s.split(&in, fr)
	}
	if f.Instant {
		switch f {
		case plan.Timestamp, plan.InfoTime:
			s.values = seconds(s.values[:0], fr.ts, in.Values)
			in.Values = s.values
		case plan.StartTimestamp:
			s.values = in.Starts.Seconds(s.values[:0], in.Values)
			in.Values = s.values
		}
		*c = lastSample(fr, &in, split, s.stale(&in), out, s.Steps)
		return nil
	}
	if f != plan.Interpolated { // of which Prometheus's engine counts no samples
		fr.used.Add(1)
	}
	*c = fr.counts
	if fr.span.extension.Modifier != plan.Unmodified {
		c.Points = s.extended(fr, f, &in, out)
		return nil
	}
	s.bounds = fr.bounds
	s.bounds.watch = watch{done: fr.span.Done}
	if f.StartTime && len(in.Starts) > 0 {
		c.Points = s.computeStarted(fr, f, &in, split, out, c.Points)
		return nil
	}
	switch f.Name {
	case "rate":
		c.Points = extrapolated(fr, &in, split, counterRate, s.resets(&in), out)
	case "increase":
		c.Points = extrapolated(fr, &in, split, counterIncrease, s.resets(&in), out)
	case "delta":
		c.Points = extrapolated(fr, &in, split, gaugeDelta, nil, out)
	case "sum_over_time", "avg_over_time":
		mean := f.Name == "avg_over_time"
		if s.integerSums(fr, &in, mean, out) {
			break
		}
		if in.Unpack(&s.joined); s.slide(in.Values, sumCost) {
			slidingSums(in.Values, &s.bounds, mean, &s.fixed, out)
		} else {
			sums(in.Values, &s.bounds, mean, out)
		}
	case "stddev_over_time", "stdvar_over_time":
		if root := f.Name == "stddev_over_time"; s.slide(in.Values, varianceCost) {
			slidingVariances(in.Values, &s.bounds, root, &s.fixed, out)
		} else {
			variances(in.Values, &s.bounds, root, out)
		}
	case "deriv", "predict_linear":
		l := line{predict: f.Name == "predict_linear", seconds: fn.Param, each: fn.Varying[0], grid: fr.span.Grid}
		if s.slide(in.Values, regressionCost) {
			c.Points = slidingRegressions(fr.ts, in.Values, &s.bounds, &s.fixed, l, out)
		} else {
			c.Points = regressions(fr.ts, in.Values, &s.bounds, l, out)
		}
	case "max_over_time":
		s.indices = extremes(in.Values, &s.bounds, 1, s.indices, out)
	case "min_over_time":
		s.indices = extremes(in.Values, &s.bounds, -1, s.indices, out)
	case "resets":
		countBetween(s.resets(&in), &s.bounds, out)
	case "changes":
		s.indices = findChanges(in.Values, s.indices[:0])
		countBetween(s.indices, &s.bounds, out)
	case "irate":
		c.Points = lastPairs(fr, &in, split, counterLast, out)
	case "idelta":
		c.Points = lastPairs(fr, &in, split, gaugeLast, out)
	case "double_exponential_smoothing":
		if fn.Varying[0] != nil {
			c.Points = smoothings(fn.Varying, fr.ts, in.Values, &s.bounds, out)
			break
		}
		if err := CheckFactors(fn.Param, fn.Trend); err != nil && c.MaxWindow > 0 {
			return err
		}
		c.Points = reduce(fr.ts, in.Values, &s.bounds, smoothing(fn.Param, fn.Trend), out)
	case "quantile_over_time":
		if fn.Varying[0] != nil || !exact.IsQuantile(fn.Param) {
			s.steppedQuantiles(in.Values, fn, out)
		} else if s.bounds.overlap(quantileCost) && s.order.Set(in.Values, int(s.bounds.first()), int(s.bounds.end())) {
			slidingQuantiles(&s.bounds, &s.order, fn.Param, out)
		} else {
			sortedQuantiles(in.Values, &s.bounds, fn.Param, &s.values, out)
		}
	case "mad_over_time":
		if s.bounds.overlap(deviationCost) && s.order.Set(in.Values, int(s.bounds.first()), int(s.bounds.end())) {
			slidingDeviations(in.Values, &s.bounds, &s.order, &s.values, out)
		} else {
			sortedDeviations(in.Values, &s.bounds, &s.values, out)
		}
	default:
		each, ok := reducers[f.Name]
		if !ok {
			return fmt.Errorf("window: no code for the function %s", f.Name)
		}
		c.Points = reduce(fr.ts, in.Values, &s.bounds, each, out)
	}
	return nil
}

// resets returns the samples that are less than the one before, as indices. The memory is
// the evaluator's.
func (s *Evaluator) resets(in *column.Samples) []int32 {
	s.indices = in.Resets(s.indices[:0])
	return s.indices
}

// stale returns the samples that are stale markers, as indices. The memory is the
// evaluator's.
func (s *Evaluator) stale(in *column.Samples) []int32 {
	s.indices = in.Stale(s.indices[:0])
	return s.indices
}
