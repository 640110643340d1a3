package cpuexec

import (
	"maps"
	"slices"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// window evaluates w, and the chain above it, over all series, batch by batch,
// into the sink that makeSink makes once the series are known.
func (r *run) window(w *plan.Window, above vector.Chain, makeSink func(*source) operator.Sink) error {
	vary, free, err := r.holdParams(w, w.Func, w.Params)
	defer free()
	if err != nil {
		return err
	}
	src, err := r.fetchSource(w, above)
	if err != nil {
		return err
	}
	src.vary = vary
	return r.evaluate(src, w, above, makeSink(src))
}

// windowing is the evaluation of a window, and the chain above it, over the series
// of a source into a sink, batch by batch.
type windowing struct {
	r         *run
	out       operator.Sink
	workers   int
	scratch   []*worker
	mappers   []vector.Mapper
	b         *operator.Batch
	next      int // the first series that was not consumed yet
	hasPoints []bool
	limit     operator.SampleLimit
	leak      operator.Leak
}

// windowed evaluates w, and the chain above it, over the series of src into out.
// offload, if it is not nil, may add rows of some or all of the series first.
func (r *run) windowed(src *source, w *plan.Window, above vector.Chain, out operator.Sink, offload func(*windowing) error) error {
	if err := r.Reserve(out); err != nil {
		return err
	}
	n := len(src.labels)
	r.Matrix.Work.Series += n
	workers := r.Workers
	if src.sel.NumSamples() < operator.InlineSamples {
		workers = 1
	}
	sp := window.SpanOf(w, r.job.Grid, r.Context.Done())
	b, free, err := r.NewBatch(n, workers)
	if err != nil {
		return err
	}
	defer free()
	e := &windowing{
		r: r, out: out, workers: workers, mappers: above.Mappers(), b: b, hasPoints: make([]bool, n),
		limit: operator.SampleLimit{Max: r.job.MaxSamples, Window: !w.Func.Instant, Held: r.Held},
		leak:  operator.Leak{Leaks: w.Func == window.Interpolated},
	}
	if e.leak.Leaks {
		e.limit.Max = 0 // of points
	}
	scratch, release := r.x.borrow(workers, r.job.Grid.Steps, len(e.mappers))
	defer release()
	for _, s := range scratch {
		s.Reader.Reset(r.job.StartTimestamps)
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
	r.Matrix.Peak = max(r.Matrix.Peak, e.limit.Peak)
	if err := e.leak.Check(r.Query, w, e.limit.Held-r.Held, n); err != nil {
		return err
	}
	if err := r.check(w, src, e.hasPoints); err != nil {
		return err
	}
	kept := make([]int, len(e.mappers)+1)
	kept[0] = e.limit.Held - r.Held
	if err := r.checkTimestamps(w, kept[0], n); err != nil {
		return err
	}
	for _, s := range scratch {
		for k, v := range s.mapped {
			kept[k+1] += v
		}
	}
	return above.Check(r.Query, kept, n)
}

// checkTimestamps raises what Prometheus's engine raises of so many results of the
// functions timestamp and start_timestamp, which it makes step by step, from nothing that it holds.
func (r *run) checkTimestamps(w *plan.Window, points, series int) error {
	if w.Func != window.Timestamp && w.Func != window.StartTimestamp {
		return nil
	}
	return r.CheckSteps(w, 0, 0, points, series)
}

// onCores evaluates the series that were not consumed yet.
func (e *windowing) onCores(src *source, w *plan.Window, sp window.Span) error {
	r, b := e.r, e.b
	n, size := len(src.labels), len(b.Counts)
	frames := r.latest.Frames(w.Func, sp)
	fn := &window.Call{Func: window.Of(w.Func), Param: w.Param, Trend: w.Trend, Varying: src.vary}
	q := &column.Request{
		Set: r.x.columns, Tick: r.x.columns.Tick(), Sel: src.sel,
		KeepStale: w.Func.Instant, TakePacked: window.TakesPacked(w.Func),
	}
	q.Mint, q.Maxt = w.Reads(r.job.Grid)
	eval := func(k, i int, out dense.Row, c *dense.Counts) bool {
		s := e.scratch[k]
		if s.err == nil && r.Context.Err() == nil {
			s.err = s.eval(frames, fn, q, i, out, c)
			vector.Apply(e.mappers, out, c, s.mapped)
		}
		return s.err == nil
	}
	if a, ok := e.out.(groupSink); ok {
		if members := a.Shared(e.next, e.workers); members != nil {
			if err := e.byGroup(a, members, eval); err != nil {
				return err
			}
		}
	}
	for b.Lo = e.next; b.Lo < n; b.Lo = e.next {
		if err := r.Done(); err != nil {
			return err
		}
		b.N = min(size, n-b.Lo)
		clear(b.Present)
		parallel.While(e.workers, b.N, func(k, i int) bool { return eval(k, b.Lo+i, b.Row(i), &b.Counts[i]) })
		if err := e.failed(); err != nil {
			return err
		}
		if err := e.consume(b); err != nil {
			return err
		}
	}
	frames.CountSamples(e.scratch[0].Steps)
	r.noteQuantiles(e.scratch, fn, w.ParamPos)
	e.warnOverlaps(w)
	for _, s := range e.scratch {
		r.Matrix.Work.Chunks += s.Stats.Chunks
		r.Matrix.Work.Samples += s.Stats.Samples
		r.Matrix.Work.Bytes += s.Stats.Bytes
		r.Matrix.Work.Kept += s.Stats.Retained
		s.CountSamples()
		for k := range b.Steps {
			r.Matrix.SamplesAtStep[k] += s.Steps.All[k]
			r.Matrix.NewSamplesAtStep[k] += s.Steps.Fresh[k]
		}
	}
	return nil
}

// warnOverlaps adds Prometheus's notes on series of w whose start timestamps overlap.
func (e *windowing) warnOverlaps(w *plan.Window) {
	steps := map[string]uint64{} // by name
	for _, s := range e.scratch {
		for name, n := range s.overlapping {
			steps[name] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		one := func() error { return annotations.NewStartTimeOverlapWarning(name, w.ArgPos) }
		e.r.Matrix.Annotations.Merge(operator.Repeated(one, steps[name]))
		e.r.overlaps = true
	}
}

// failed returns what went wrong with series, or for the whole query.
func (e *windowing) failed() error {
	for _, s := range e.scratch {
		if s.err != nil {
			return s.err
		}
	}
	return e.r.Done()
}

// consume hands the next series to the sink.
func (e *windowing) consume(b *operator.Batch) error {
	for i := range b.N {
		e.hasPoints[b.Lo+i] = b.Counts[i].Points > 0
		if !e.count(b.Counts[i]) {
			return promql.ErrTooManySamples("query execution")
		}
	}
	e.out.Consume(e.r.Query, b)
	e.next += b.N
	return nil
}

// count counts the samples of one more series and reports whether the limit still holds.
func (e *windowing) count(c dense.Counts) bool {
	if !e.leak.Leaks {
		return e.limit.Add(c)
	}
	e.leak.Add(c)
	e.limit.Held += c.Points
	return true
}
