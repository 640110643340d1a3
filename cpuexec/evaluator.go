package cpuexec

import (
	"fmt"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// call is a window function and its parameters.
type call struct {
	f            *plan.WindowFunc
	param, trend float64
	vary         varying
}

// varying are the parameters of a window function by step, where not all of them are
// constants.
type varying [2][]float64

// evaluator evaluates window functions over the samples of one series after another. It
// holds the scratch memory of one goroutine.
type evaluator struct {
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

	// What an evaluation has found out: samples per step, steps of the series evaluated
	// last that have start timestamps which overlap, and a bitmap of the steps with a
	// quantile that may be none.
	sc       stepCounts
	overlaps uint64
	noted    []uint64
}

// reset begins an evaluation at so many steps.
func (s *evaluator) reset(steps int) {
	s.noted, s.overlaps = nil, 0
	s.single.used.Store(0)
	for _, c := range []*[]int64{&s.sc.all, &s.sc.fresh} {
		if cap(*c) < steps {
			*c = make([]int64, steps)
		}
		*c = (*c)[:steps]
		clear(*c)
	}
}

// countSamples adds the samples of the series evaluated by themselves to those per step.
func (s *evaluator) countSamples() { s.single.settle(s.sc) }

// compute fills out, which has no values yet, with what is called over the windows of in.
func (s *evaluator) compute(frames *frames, fn *call, in column.Samples, out dense.Row, c *dense.Counts) error {
	f := fn.f
	*c = dense.Counts{}
	if in.Times.Len() == 0 {
		return nil
	}
	fr := frames.over(in.Times, &s.single, s.sc)
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
		*c = lastSample(fr, &in, split, s.stale(&in), out, s.sc)
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
	s.bounds.watch = watch{done: fr.span.done}
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
		l := line{predict: f.Name == "predict_linear", seconds: fn.param, each: fn.vary[0], grid: fr.span.grid}
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
		if fn.vary[0] != nil {
			c.Points = smoothings(fn.vary, fr.ts, in.Values, &s.bounds, out)
			break
		}
		if err := factorsFail(fn.param, fn.trend); err != nil && c.MaxWindow > 0 {
			return err
		}
		c.Points = fold(fr.ts, in.Values, &s.bounds, smoothing(fn.param, fn.trend), out)
	case "quantile_over_time":
		if fn.vary[0] != nil || !exact.IsQuantile(fn.param) {
			s.steppedQuantiles(in.Values, fn, out)
		} else if s.bounds.overlap(quantileCost) && s.order.Set(in.Values, int(s.bounds.first()), int(s.bounds.end())) {
			slidingQuantiles(&s.bounds, &s.order, fn.param, out)
		} else {
			sortedQuantiles(in.Values, &s.bounds, fn.param, &s.values, out)
		}
	case "mad_over_time":
		if s.bounds.overlap(deviationCost) && s.order.Set(in.Values, int(s.bounds.first()), int(s.bounds.end())) {
			slidingDeviations(in.Values, &s.bounds, &s.order, &s.values, out)
		} else {
			sortedDeviations(in.Values, &s.bounds, &s.values, out)
		}
	default:
		each, ok := folders[f.Name]
		if !ok {
			return fmt.Errorf("cpuexec: no code for the window function %s", f.Name)
		}
		c.Points = fold(fr.ts, in.Values, &s.bounds, each, out)
	}
	return nil
}

// seconds appends the times of samples in seconds to out, keeping stale markers.
func seconds(out []float64, ts []int64, vs []float64) []float64 {
	for k, v := range vs {
		if !value.IsStaleNaN(v) {
			v = float64(ts[k]) / 1000
		}
		out = append(out, v)
	}
	return out
}

// resets returns the samples that are less than the one before, as indices. The memory is
// the evaluator's.
func (s *evaluator) resets(in *column.Samples) []int32 {
	s.indices = in.Resets(s.indices[:0])
	return s.indices
}

// stale returns the samples that are stale markers, as indices. The memory is the
// evaluator's.
func (s *evaluator) stale(in *column.Samples) []int32 {
	s.indices = in.Stale(s.indices[:0])
	return s.indices
}
