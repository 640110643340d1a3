package cpuexec

import (
	"fmt"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// worker is the scratch memory of one goroutine.
type worker struct {
	cols    columns
	joined  []float64 // values of a column and those after it
	single  frame     // over the times of one series alone
	bounds  bounds    // of the frame in use, with a watch of this worker's
	fixed   fixed
	order   order
	indices []int32   // of samples
	starts  startRuns // of a column and the samples behind it
	began   []int32   // samples that start timestamps say something of
	merged  []int32   // indices of two kinds
	// Steps of the series evaluated last that have start timestamps which overlap, and of
	// all series by name.
	overlaps    uint64
	overlapping map[string]uint64
	upTo        []int64   // sums of the values before each
	values      []float64 // for functions that sort
	times       []int64   // of the points of a subquery
	sc          stepCounts
	kept        []int // values after each map
	vary        varying
	noted       []uint64 // bitmap of the steps with a quantile that may be none
	read        readStats
	err         error
}

func (w *worker) reset(sp span, maps int) {
	w.read, w.err = readStats{}, nil
	w.vary, w.noted = varying{}, nil
	w.cols.wantStarts, w.overlapping = false, nil
	w.single.used.Store(0)
	steps := sp.grid.Steps
	w.kept = make([]int, maps)
	for _, s := range []*[]int64{&w.sc.all, &w.sc.fresh} {
		if cap(*s) < steps {
			*s = make([]int64, steps)
		}
		*s = (*s)[:steps]
		clear(*s)
	}
}

// borrow takes scratch memory for n goroutines that evaluate windows of sp;
// release gives it back.
func (x *Executor) borrow(n int, sp span, maps int) (scratch []*worker, release func()) {
	scratch = make([]*worker, n)
	for i := range scratch {
		scratch[i] = x.scratch.Get().(*worker)
		scratch[i].reset(sp, maps)
	}
	return scratch, func() {
		for _, s := range scratch {
			x.scratch.Put(s)
		}
	}
}

// eval applies the window function to one series.
func (s *worker) eval(r *run, frames *frames, tick int64, w *plan.Window, sel *selection.Selection, i int, out row, c *counts) error {
	mint, maxt := w.Reads(r.job.Grid)
	in, err := s.load(r.x.hot, tick, sel, i, mint, maxt, w.Func)
	if err != nil {
		return err
	}
	err = s.compute(frames, w.Func, w.Param, w.Trend, in, out, c)
	in.release()
	if s.overlaps > 0 {
		s.noteOverlaps(sel.Labels(i))
	}
	return err
}

// compute fills out with f over the windows of in.
func (s *worker) compute(frames *frames, f *plan.WindowFunc, param, trend float64, in samples, out row, c *counts) error {
	*c = counts{}
	if in.times.len() == 0 {
		return nil
	}
	fr := frames.over(in.times, &s.single, s.sc)
	split := fr.from // steps before it have packed samples
	if atEnds(f) {
		split = s.split(&in, fr)
	}
	if f.Instant {
		switch f {
		case plan.Timestamp, plan.InfoTime:
			s.values = seconds(s.values[:0], fr.ts, in.vs)
			in.vs = s.values
		case plan.StartTimestamp:
			s.values = in.starts.seconds(s.values[:0], in.vs)
			in.vs = s.values
		}
		*c = lastSample(fr, &in, split, s.stale(in), out, s.sc)
		return nil
	}
	if f != plan.Interpolated { // of which Prometheus's engine counts no samples
		fr.used.Add(1)
	}
	*c = fr.counts
	if fr.span.extension.Modifier != plan.Unmodified {
		c.points = s.extended(fr, f, &in, out)
		return nil
	}
	s.bounds = fr.bounds
	s.bounds.watch = watch{done: fr.span.done}
	if f.StartTime && len(in.starts) > 0 {
		c.points = s.computeStarted(fr, f, &in, split, out, c.points)
		return nil
	}
	switch f.Name {
	case "rate":
		c.points = extrapolated(fr, &in, split, counterRate, s.resets(in), out)
	case "increase":
		c.points = extrapolated(fr, &in, split, counterIncrease, s.resets(in), out)
	case "delta":
		c.points = extrapolated(fr, &in, split, gaugeDelta, nil, out)
	case "sum_over_time", "avg_over_time":
		mean := f.Name == "avg_over_time"
		if s.integerSums(fr, &in, mean, out) {
			break
		}
		if s.unpack(&in); s.slide(in.vs, sumCost) {
			slidingSums(in.vs, &s.bounds, mean, &s.fixed, out)
		} else {
			sums(in.vs, &s.bounds, mean, out)
		}
	case "stddev_over_time", "stdvar_over_time":
		if root := f.Name == "stddev_over_time"; s.slide(in.vs, varianceCost) {
			slidingVariances(in.vs, &s.bounds, root, &s.fixed, out)
		} else {
			variances(in.vs, &s.bounds, root, out)
		}
	case "deriv", "predict_linear":
		l := line{predict: f.Name == "predict_linear", seconds: param, each: s.vary[0], grid: fr.span.grid}
		if s.slide(in.vs, regressionCost) {
			c.points = slidingRegressions(fr.ts, in.vs, &s.bounds, &s.fixed, l, out)
		} else {
			c.points = regressions(fr.ts, in.vs, &s.bounds, l, out)
		}
	case "max_over_time":
		s.indices = extremes(in.vs, &s.bounds, 1, s.indices, out)
	case "min_over_time":
		s.indices = extremes(in.vs, &s.bounds, -1, s.indices, out)
	case "resets":
		countBetween(s.resets(in), &s.bounds, out)
	case "changes":
		s.indices = findChanges(in.vs, s.indices[:0])
		countBetween(s.indices, &s.bounds, out)
	case "irate":
		c.points = lastPairs(fr, &in, split, counterLast, out)
	case "idelta":
		c.points = lastPairs(fr, &in, split, gaugeLast, out)
	case "double_exponential_smoothing":
		if s.vary[0] != nil {
			c.points = s.vary.smoothings(fr.ts, in.vs, &s.bounds, out)
			break
		}
		if err := factorsFail(param, trend); err != nil && c.maxWindow > 0 {
			return err
		}
		c.points = fold(fr.ts, in.vs, &s.bounds, smoothing(param, trend), out)
	case "quantile_over_time":
		if s.vary[0] != nil || !quantileIsValid(param) {
			s.steppedQuantiles(in.vs, param, out)
		} else if s.bounds.overlap(quantileCost) && s.order.set(in.vs, int(s.bounds.first()), int(s.bounds.end())) {
			slidingQuantiles(&s.bounds, &s.order, param, out)
		} else {
			sortedQuantiles(in.vs, &s.bounds, param, &s.values, out)
		}
	case "mad_over_time":
		if s.bounds.overlap(deviationCost) && s.order.set(in.vs, int(s.bounds.first()), int(s.bounds.end())) {
			slidingDeviations(in.vs, &s.bounds, &s.order, &s.values, out)
		} else {
			sortedDeviations(in.vs, &s.bounds, &s.values, out)
		}
	default:
		fn, ok := folders[f.Name]
		if !ok {
			return fmt.Errorf("cpuexec: no code for the window function %s", f.Name)
		}
		c.points = fold(fr.ts, in.vs, &s.bounds, fn, out)
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

// apply applies maps to a series that has been windowed.
func (s *worker) apply(ms []mapper, out row, c *counts) {
	c.kept = c.points
	for k, m := range ms {
		if c.kept == 0 {
			return
		}
		c.kept = m.apply(out)
		s.kept[k] += c.kept
	}
}
