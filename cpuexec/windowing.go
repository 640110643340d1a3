package cpuexec

import (
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
)

// windowing is the evaluation of a window, and the chain above it, over the series
// of a source into a sink, batch by batch.
type windowing struct {
	r         *run
	out       sink
	workers   int
	scratch   []*worker
	mappers   []mapper
	b         *batch
	next      int // the first series that was not taken yet
	hasPoints []bool
	limit     sampleLimit
	leak      leak
}

// windowed evaluates w, and the chain above it, over the series of src into out.
// offload, if it is not nil, may add rows of some or all of the series first.
func (r *run) windowed(src *source, w *plan.Window, above chain, out sink, offload func(*windowing) error) error {
	if err := r.reserve(out); err != nil {
		return err
	}
	n := len(src.labels)
	r.m.Work.Series += n
	workers := r.x.workers
	if src.sel.NumSamples() < inlineSamples {
		workers = 1
	}
	sp := spanOf(w, r.job.Grid, r.ctx.Done())
	b, free, err := r.newBatch(n, workers)
	if err != nil {
		return err
	}
	defer free()
	e := &windowing{
		r: r, out: out, workers: workers, mappers: above.mappers(), b: b, hasPoints: make([]bool, n),
		limit: sampleLimit{max: r.job.MaxSamples, window: !w.Func.Instant, held: r.held},
		leak:  leak{leaks: w.Func == plan.Interpolated},
	}
	if e.leak.leaks {
		e.limit.max = 0 // of points
	}
	scratch, release := r.x.borrow(workers, sp, len(e.mappers))
	defer release()
	for _, s := range scratch {
		s.cols.wantStarts = r.job.StartTimestamps
	}
	e.scratch = scratch
	if offload != nil {
		if err := offload(e); err != nil {
			return err
		}
	}
	if e.next < n {
		if err := e.onCores(src, w, sp); err != nil {
			return err
		}
	}
	r.m.Peak = max(r.m.Peak, e.limit.peak)
	if err := e.leak.check(r, w, e.limit.held-r.held, n); err != nil {
		return err
	}
	if err := r.check(w, src, e.hasPoints); err != nil {
		return err
	}
	kept := make([]int, len(e.mappers)+1)
	kept[0] = e.limit.held - r.held
	if err := r.checkTimestamps(w, kept[0], n); err != nil {
		return err
	}
	for _, s := range scratch {
		for k, v := range s.kept {
			kept[k+1] += v
		}
	}
	return above.check(r, kept, n)
}

// checkTimestamps raises what Prometheus's engine raises of so many results of the
// functions timestamp and start_timestamp, which it makes step by step, from nothing that it holds.
func (r *run) checkTimestamps(w *plan.Window, points, series int) error {
	if w.Func != plan.Timestamp && w.Func != plan.StartTimestamp {
		return nil
	}
	return r.checkSteps(w, 0, 0, points, series)
}

// onCores evaluates the series that were not taken yet.
func (e *windowing) onCores(src *source, w *plan.Window, sp span) error {
	r, b := e.r, e.b
	n, size := len(src.labels), len(b.counts)
	frames := r.latest.take(w.Func, sp)
	tick := r.x.hot.clock.Add(1)
	for _, s := range e.scratch {
		s.vary = src.vary
	}
	eval := func(k, i int, out row, c *counts) bool {
		s := e.scratch[k]
		if s.err == nil && r.ctx.Err() == nil {
			s.err = s.eval(r, frames, tick, w, src.sel, i, out, c)
			s.apply(e.mappers, out, c)
		}
		return s.err == nil
	}
	if a, ok := e.out.(*aggregator); ok {
		if members := a.groups.shared(e.next, e.workers); members != nil {
			if err := e.byGroup(a, members, eval); err != nil {
				return err
			}
		}
	}
	for b.lo = e.next; b.lo < n; b.lo = e.next {
		if err := r.done(); err != nil {
			return err
		}
		b.n = min(size, n-b.lo)
		clear(b.present)
		parallel(e.workers, b.n, func(k, i int) bool { return eval(k, b.lo+i, b.row(i), &b.counts[i]) })
		if err := e.failed(); err != nil {
			return err
		}
		if err := e.take(b); err != nil {
			return err
		}
	}
	frames.settle(e.scratch[0].sc)
	r.noteQuantiles(e.scratch, w.Param, w.ParamPos)
	e.warnOverlaps(w)
	for _, s := range e.scratch {
		r.m.Work.Chunks += s.read.chunks
		r.m.Work.Samples += s.read.samples
		r.m.Work.Bytes += s.read.bytes
		r.m.Work.Kept += s.read.hot
		s.single.settle(s.sc)
		for k := range b.steps {
			r.m.SamplesAtStep[k] += s.sc.all[k]
			r.m.NewSamplesAtStep[k] += s.sc.fresh[k]
		}
	}
	return nil
}

// failed returns what went wrong with series, or for the whole query.
func (e *windowing) failed() error {
	for _, s := range e.scratch {
		if s.err != nil {
			return s.err
		}
	}
	return e.r.done()
}

// take hands the next series to the sink.
func (e *windowing) take(b *batch) error {
	for i := range b.n {
		e.hasPoints[b.lo+i] = b.counts[i].points > 0
		if !e.count(b.counts[i]) {
			return promql.ErrTooManySamples("query execution")
		}
	}
	e.out.take(e.r, b)
	e.next += b.n
	return nil
}

// count counts the samples of one more series and reports whether the limit still holds.
func (e *windowing) count(c counts) bool {
	if !e.leak.leaks {
		return e.limit.add(c)
	}
	e.leak.add(c)
	e.limit.held += c.points
	return true
}
