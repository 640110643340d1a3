package cpuexec

import (
	"fmt"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// worker is the scratch memory of one goroutine.
type worker struct {
	cols   columns
	bounds bounds
	resets []int32   // indices of samples
	values []float64 // for functions that sort
	times  []int64   // of the points of a subquery
	sc     stepCounts
	kept   []int // values after each map
	read   readStats
	err    error
}

func (w *worker) reset(steps, maps int) {
	w.read, w.err = readStats{}, nil
	w.kept = make([]int, maps)
	for _, s := range []*[]int64{&w.sc.all, &w.sc.fresh} {
		if cap(*s) < steps {
			*s = make([]int64, steps)
		}
		*s = (*s)[:steps]
		clear(*s)
	}
}

// borrow takes scratch memory for n goroutines; release gives it back.
func (x *Executor) borrow(n, steps, maps int) (scratch []*worker, release func()) {
	scratch = make([]*worker, n)
	for i := range scratch {
		scratch[i] = x.scratch.Get().(*worker)
		scratch[i].reset(steps, maps)
	}
	return scratch, func() {
		for _, s := range scratch {
			x.scratch.Put(s)
		}
	}
}

// eval decodes one series and applies the window function to it.
func (s *worker) eval(r *run, w *plan.Window, sel *selection.Selection, i int, out row, c *counts) error {
	mint, maxt := w.Reads(r.job.Grid)
	rs, err := s.cols.read(sel, i, mint, maxt, !w.Func.Instant)
	s.read.chunks += rs.chunks
	s.read.samples += rs.samples
	s.read.bytes += rs.bytes
	if err != nil {
		sel.Discard()
		return err
	}
	sp := span{grid: r.job.Grid, scan: w.Scan, width: w.Width}
	return s.compute(w.Func, w.Param, sp, s.cols.ts, s.cols.vs, out, c)
}

// compute fills out with f over the windows of sp.
func (s *worker) compute(f *plan.WindowFunc, param float64, sp span, ts []int64, vs []float64, out row, c *counts) error {
	switch f.Name {
	case plan.Last.Name:
		*c = lastSample(ts, vs, sp, out, s.sc)
	case "rate":
		*c, s.resets = extrapolated(ts, vs, sp, counterRate, s.resets, out, s.sc)
	case "increase":
		*c, s.resets = extrapolated(ts, vs, sp, counterIncrease, s.resets, out, s.sc)
	case "delta":
		*c, s.resets = extrapolated(ts, vs, sp, gaugeDelta, s.resets, out, s.sc)
	case "sum_over_time", "avg_over_time":
		*c = s.bounds.windows(ts, sp, s.sc)
		sums(vs, &s.bounds, f.Name == "avg_over_time", out)
	case "max_over_time":
		*c = s.bounds.windows(ts, sp, s.sc)
		s.resets = extremes(vs, &s.bounds, 1, s.resets, out)
	case "min_over_time":
		*c = s.bounds.windows(ts, sp, s.sc)
		s.resets = extremes(vs, &s.bounds, -1, s.resets, out)
	default:
		fn, ok := folders[f.Name]
		if !ok {
			return fmt.Errorf("cpuexec: no code for the window function %s", f.Name)
		}
		*c = fold(ts, vs, sp, fn, param, &s.values, out, s.sc)
	}
	return nil
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
