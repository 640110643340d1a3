package cpuexec

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// batch is a number of consecutive series and their values at every step.
type batch struct {
	lo, n   int // series lo to lo+n
	steps   int
	words   int
	vals    []float64
	present []uint64
	counts  []counts
}

// batchBytes is the size of a batch's values that keeps them in a core's cache
// between the phase that writes and the one that reads them.
const batchBytes = 1 << 20

func newBatch(series, steps, workers int) *batch {
	n := min(max(batchBytes/(8*steps), 4*workers), 1024, max(series, 1))
	b := &batch{steps: steps, words: (steps + 63) / 64}
	b.vals = make([]float64, n*steps)
	b.present = make([]uint64, n*b.words)
	b.counts = make([]counts, n)
	return b
}

func (b *batch) row(i int) row {
	return row{
		vals:    b.vals[i*b.steps : (i+1)*b.steps],
		present: b.present[i*b.words : (i+1)*b.words],
	}
}

// sink takes finished batches, in series order.
type sink interface {
	take(r *run, b *batch)
}

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

// inlineSamples is the number of samples below which starting goroutines costs
// more than it saves.
const inlineSamples = 20_000

// window evaluates w, and the chain of maps above it, over all series, batch by
// batch, into the sink that open makes once the series are known. top is the
// uppermost of the maps, or w.
func (r *run) window(top plan.Node, w *plan.Window, chain []*plan.Map, open func(*source) sink) error {
	src, err := r.open(top, w)
	if err != nil {
		return err
	}
	out := open(src)
	if a, ok := out.(*aggregator); ok {
		if reason := a.tooLarge(r.job.MaxSamples); reason != "" {
			return &plan.Declined{Scan: w.Scan, Reason: reason}
		}
		a.open()
	}
	n, steps := len(src.labels), r.job.Grid.Steps
	r.m.Work.Series += n
	hasPoints := make([]bool, n)
	workers := r.x.workers
	if src.sel.NumSamples() < inlineSamples {
		workers = 1
	}
	mappers := make([]mapper, len(chain))
	for i, m := range chain {
		mappers[i] = newMapper(m)
	}
	scratch, release := r.x.borrow(workers, steps, len(chain))
	defer release()

	limit := sampleLimit{max: r.job.MaxSamples, window: !w.Func.Instant, held: r.held}
	b := newBatch(n, steps, workers)
	for b.lo = 0; b.lo < n; b.lo += b.n {
		if err := r.done(); err != nil {
			return err
		}
		b.n = min(len(b.counts), n-b.lo)
		clear(b.present)
		parallel(workers, b.n, func(k, i int) bool {
			s := scratch[k]
			if s.err == nil && r.ctx.Err() == nil {
				s.err = s.eval(r, w, src.sel, b.lo+i, b.row(i), &b.counts[i])
				s.apply(mappers, b.row(i), &b.counts[i])
			}
			return s.err == nil
		})
		for _, s := range scratch {
			if s.err != nil {
				return s.err
			}
		}
		if err := r.done(); err != nil {
			return err
		}
		for i := range b.n {
			hasPoints[b.lo+i] = b.counts[i].points > 0
			if !limit.add(b.counts[i]) {
				return promql.ErrTooManySamples("query execution")
			}
		}
		out.take(r, b)
	}
	for _, s := range scratch {
		r.m.Work.Chunks += s.read.chunks
		r.m.Work.Samples += s.read.samples
		r.m.Work.Bytes += s.read.bytes
		for k := range steps {
			r.m.SamplesAtStep[k] += s.sc.all[k]
			r.m.NewSamplesAtStep[k] += s.sc.fresh[k]
		}
	}
	r.m.Peak = max(r.m.Peak, limit.peak)
	if err := r.check(w, src, hasPoints); err != nil {
		return err
	}
	in := limit.held - r.held
	for k, m := range chain {
		out := 0
		for _, s := range scratch {
			out += s.kept[k]
		}
		if err := r.checkMapped(m, in, out, n); err != nil {
			return err
		}
		in = out
	}
	return nil
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

// rows feeds the rows of an inner result to an aggregation.
func (r *run) rows(in []plan.Row, a *aggregator) error {
	if reason := a.tooLarge(r.job.MaxSamples); reason != "" {
		return &plan.Declined{Scan: plan.Source(r.job.Node).Scan, Reason: reason}
	}
	a.open()
	b := newBatch(len(in), r.job.Grid.Steps, r.x.workers)
	for b.lo = 0; b.lo < len(in); b.lo += b.n {
		if err := r.done(); err != nil {
			return err
		}
		b.n = min(len(b.counts), len(in)-b.lo)
		clear(b.present)
		for i := range b.n {
			expand(in[b.lo+i], b.row(i))
			n := len(in[b.lo+i].Values)
			b.counts[i] = counts{points: n, kept: n}
		}
		a.take(r, b)
	}
	return nil
}

// expand writes a sparse row into a dense one.
func expand(in plan.Row, out row) {
	v := 0
	for _, run := range in.Runs {
		for k := run.First; k < run.First+run.Len; k++ {
			out.set(int(k), in.Values[v])
			v++
		}
	}
}

// sampleLimit follows the number of samples that Prometheus's engine would hold
// while it evaluates series one after another: the points of the results so far
// and the samples in the current window.
type sampleLimit struct {
	max    int  // 0 means no limit
	window bool // a range function, which holds its window's samples too
	held   int
	peak   int
}

// add counts one more series and reports whether the limit still holds.
func (l *sampleLimit) add(c counts) bool {
	most := l.held + c.points
	if l.window {
		most = l.held + max(c.maxWindow, c.lastWindow+c.points)
	}
	l.held += c.points
	l.peak = max(l.peak, most)
	return l.max <= 0 || most <= l.max
}

// parallel calls f(worker, i) for every i below n from the given number of
// goroutines, until f returns false. It returns when all calls have. A panic in
// f is raised again in the caller's goroutine, where Prometheus's engine turns
// it into the error of one query.
func parallel(workers, n int, f func(worker, i int) bool) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			if !f(0, i) {
				return
			}
		}
		return
	}
	var next atomic.Int64
	var panicked atomic.Pointer[any]
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked.Store(&p)
				}
			}()
			for panicked.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n || !f(k, i) {
					return
				}
			}
		})
	}
	wg.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
}
