package cpuexec

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"
	"go.opentelemetry.io/otel/attribute"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
)

// windowing is the evaluation of a window function, and the chain above it, over the samples
// that a selector reads or the points of a subquery.
type windowing struct {
	r      *evaluation
	node   plan.Node // a window or a subwindow
	above  vector.Chain
	call   window.Call
	argPos posrange.PositionRange // none of a subquery: Prometheus has replaced it by then
	params []operator.Operator
	held   int // before it was opened
	after  int // when it has ended, unless something above it releases that

	series    []labels.Labels // below all that changes labels
	workers   int
	loop      *operator.Loop
	hasPoints []bool
	points    atomic.Int64
	limit     operator.SampleLimit
	wants     func(i int) bool // whether a series is to be evaluated; nil for all
	digested  *digested        // what series are evaluated from digests by; nil for none
}

// begin readies the loop over all series into out. Accelerators may add some or all of them to it, evaluate
// evaluates the series that are left, and end ends it.
func (e *windowing) begin(out operator.Sink) error {
	r, n := e.r, len(e.series)
	e.hasPoints = make([]bool, n)
	e.limit = operator.SampleLimit{
		Max: r.job.MaxSamples, Window: !e.call.Func.Instant, Leaks: &e.call.Func.WindowFunc == window.Interpolated, Held: r.Held,
	}
	count := func(i int, c dense.Counts) error {
		if e.hasPoints[i] = c.Points > 0; !e.limit.Add(c) {
			return promql.ErrTooManySamples("query execution")
		}
		return nil
	}
	e.loop = &operator.Loop{Query: r.Query, Out: out, N: n, Workers: e.workers, Maps: e.above.Mappers(), Count: count}
	return e.loop.Begin()
}

// end raises what Prometheus's engine raises once it has evaluated the function, and the chain above it.
func (e *windowing) end(raise func() error) error {
	r, n := e.r, len(e.series)
	r.Matrix.Peak = max(r.Matrix.Peak, e.limit.Peak)
	left := e.loop.Left()
	if e.limit.Leaks {
		if err := e.limit.Check(r.Query, e.node, left[0], n); err != nil {
			return err
		}
	}
	if err := raise(); err != nil {
		return err
	}
	if err := e.above.Check(r.Query, left, n, e.held); err != nil {
		return err
	}
	r.Held = min(r.Held, e.after)
	return nil
}

// evaluate evaluates the series that were not consumed yet, whose samples load gets.
func (e *windowing) evaluate(frames *frame.Frames, load func(s *worker, i int) (column.Samples, error)) error {
	r, scratch := e.r, make([]*worker, e.workers)
	for k := range scratch {
		s := r.x.scratch.Get().(*worker)
		defer r.x.scratch.Put(s)
		s.Reader.Reset(r.job.StartTimestamps)
		s.Evaluator.Reset()
		s.overlapping = nil
		if r.job.CountSamples {
			s.Counts = frame.NewStepCounts(r.job.Grid.Steps)
		}
		scratch[k] = s
	}
	e.loop.Fill = func(k, i int, out dense.Row, c *dense.Counts) error {
		if e.wants != nil && !e.wants(i) {
			return nil
		}
		s, samples := scratch[k], 0
		done, err := false, error(nil)
		if e.digested != nil {
			samples, done, err = e.digested.evaluate(s, i, out, c)
		}
		if err == nil && !done {
			var in column.Samples
			if in, err = load(s, i); err != nil {
				return err
			}
			samples, err = in.Times.Len(), s.Evaluate(frames, &e.call, in, out, c)
		}
		r.job.Progress.Evaluate(samples)
		if s.Overlaps > 0 {
			if s.overlapping == nil {
				s.overlapping = map[string]uint64{}
			}
			s.overlapping[e.series[i].Get(model.MetricNameLabel)] += s.Overlaps
			s.Overlaps = 0
		}
		if n := e.points.Add(int64(c.Points)); err == nil && e.limit.Max > 0 && !e.limit.Leaks && n > int64(e.limit.Max) {
			return promql.ErrTooManySamples("query execution") // as count would find
		}
		return err
	}
	if r.job.Grid.Steps == 1 {
		e.loop.Finish = func(k int) { scratch[k].Finish() }
	}
	if err := e.loop.Run(); err != nil {
		return err
	}
	overlapping := map[string]uint64{} // steps by name
	for _, s := range scratch {
		for name, n := range s.overlapping {
			overlapping[name] += n
		}
		s.InvalidQuantiles(&e.call, func(q float64) { r.Note(annotations.NewInvalidQuantileWarning(q, e.call.ParamPos)) })
		r.Matrix.Work.Chunks += s.Stats.Chunks
		r.Matrix.Work.Samples += s.Stats.Samples
		r.Matrix.Work.Bytes += s.Stats.Bytes
		r.Matrix.Work.Kept += s.Stats.Retained
		r.Matrix.Work.Digested += s.Stats.Digested
		r.varies = r.varies || s.Varies
		if s.Counts == nil {
			continue
		}
		if _, ok := e.node.(*plan.Subwindow); ok { // what its points are of was counted when it was read
			clear(s.Counts.Fresh)
		}
		r.countSteps(s.Counts.All, s.Counts.Fresh)
	}
	for _, name := range slices.Sorted(maps.Keys(overlapping)) {
		one := func() error { return annotations.NewStartTimeOverlapWarning(name, e.argPos) }
		r.Matrix.Annotations.Merge(operator.Repeated(one, overlapping[name]))
		r.overlaps = true
	}
	return nil
}

// selected is the operator of a window over what a selector reads, and of the chain above it.
type selected struct {
	windowing
	w           *plan.Window
	accelerator offload.Accelerator // nil for none
	src         *source
}

// window makes the operator of w, which has these parameters and may be computed by an accelerator, and the
// chain above it.
func (r *evaluation) window(w *plan.Window, above vector.Chain, params []operator.Operator, x offload.Accelerator) *selected {
	return &selected{w: w, accelerator: x, windowing: windowing{
		r: r, node: w, above: above, params: params, argPos: w.ArgPos,
		call: window.Call{Func: window.Of(w.Func), Parameters: w.Parameters},
	}}
}

// Open implements operator.Operator.
func (s *selected) Open() (_ *operator.Series, err error) {
	s.held, s.after = s.r.Held, s.r.Held
	if err := s.holdParams(); err != nil {
		return nil, err
	}
	if s.src, err = s.r.fetchSource(s.w, s.above); err != nil {
		return nil, err
	}
	s.series = s.src.labels
	return &operator.Series{N: len(s.series), Labels: s.src.resultLabels, Groups: s.src.groups}, nil
}

// begin implements windowing's for a window.
func (s *selected) begin(out operator.Sink) error {
	r := s.r
	r.Matrix.Work.Series += len(s.series)
	if one, ok := out.(operator.Selective); ok && s.w.Func == window.Last && !s.src.mayCollide && !r.job.CountSamples {
		s.wants = one.Wants // of others nothing is said
	}
	mint, maxt := s.w.Reads(r.job.Grid)
	s.workers = r.WorkersFor(max(int(s.src.sel.SamplesAbout(mint, maxt)), len(s.series)*r.job.Grid.Steps))
	return s.windowing.begin(out)
}

// onCores evaluates into out the series that were not consumed yet, on the cores, and ends. It begins
// where that was not done.
func (s *selected) onCores(out operator.Sink) error {
	if s.loop == nil {
		if err := s.begin(out); err != nil {
			return err
		}
	}
	if s.loop.Next < len(s.series) {
		if err := s.rest(); err != nil {
			return err
		}
	}
	return s.end(func() error { return s.raise(s.limit.Held - s.r.Held) })
}

// rest evaluates the series that were not consumed yet.
func (s *selected) rest() (err error) {
	r := s.r
	_, span := tracing.Start(r.Context, "leaf on cores")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("function", s.w.Func.Name), attribute.Int("series", len(s.series)))
	}
	defer func() { tracing.End(span, err) }()
	q := &column.Request{
		Set: r.x.columns, Tick: r.tick, Sel: s.src.sel,
		KeepStale: s.w.Func.Instant, TakePacked: s.call.Func.Reads != window.Unpacked, Partial: r.partial,
	}
	q.Mint, q.Maxt = s.w.Reads(r.job.Grid)
	if q.Width, _ = s.w.Reach(); s.w.Scan.Fixed == nil {
		q.Every = r.job.Grid.Interval
	}
	frames := &frame.Frames{Span: frame.SpanOf(s.w, r.job.Grid, r.Context.Done())}
	defer frames.Release()
	s.digested = s.digests(q)
	return s.evaluate(frames, func(k *worker, i int) (column.Samples, error) { return k.Load(q, i) })
}

// raise raises what Prometheus's engine raises once it has evaluated the window, by the number
// of points. Those of timestamp and start_timestamp it makes step by step, from nothing that it holds.
func (s *selected) raise(points int) error {
	err := s.check(s.src.oneName, s.src.mayCollide)
	if err != nil || s.w.Func != window.Timestamp && s.w.Func != window.StartTimestamp {
		return err
	}
	return s.r.CheckSteps(s.w, 0, 0, points, len(s.series))
}

const reasonFactors = "a smoothing or trend factor is outside 0 to 1 at some step, which is for Prometheus's engine to report"

// holdParams evaluates the parameters. Their samples are held until what is above the function
// has been evaluated, also those of constants.
func (e *windowing) holdParams() error {
	f, steps := e.call.Func, e.r.job.Grid.Steps
	if len(e.params) == 0 {
		e.r.Held += f.Param.Count() * steps
		return nil
	}
	for i, p := range e.params {
		e.params[i] = nil // see operator.Operator
		rows, err := operator.Rows(p)
		if err != nil {
			return err
		}
		e.call.Varying[i] = rows[0].Values
		e.r.Held += steps
	}
	if check := e.call.Func.Check; check != nil {
		for k, factor := range e.call.Varying[0] {
			if check(factor, e.call.Varying[1][k]) != nil {
				return &plan.Declined{At: e.node, Reason: reasonFactors}
			}
		}
	}
	return nil
}

// worker is the scratch memory of one goroutine.
type worker struct {
	column.Reader
	window.Evaluator
	// overlapping counts, for all series of a name, the steps at which start timestamps
	// overlap.
	overlapping map[string]uint64
	times       []int64      // of the points of a subquery
	windows     frame.Bounds // of what is evaluated from digests
}
