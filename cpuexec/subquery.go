package cpuexec

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// subquery is the operator of a window function over the points of a subquery, and of the chain
// above it.
type subquery struct {
	windowing
	n     *plan.Subwindow
	sub   *evaluation
	input operator.Operator // of sub
	drops bool
	in    []plan.Row
}

// subquery makes the operator of n and the chain above it. The input of n is evaluated on the
// subquery's own grid.
func (r *evaluation) subquery(n *plan.Subwindow, above vector.Chain) *subquery {
	var params []operator.Operator
	for _, p := range n.Params {
		params = append(params, r.build(p))
	}
	sub := r.on(n.Inner, n.Input)
	return &subquery{n: n, sub: sub, input: sub.build(n.Input), drops: !n.Func.KeepsName && !r.job.DelayedNameRemoval, windowing: windowing{
		r: r, node: n, above: above, params: params,
		call: window.Call{Func: window.Of(n.Func), Parameters: n.Parameters},
	}}
}

// Open implements operator.Operator.
func (o *subquery) Open() (*operator.Series, error) {
	r := o.r
	o.held = r.Held
	var err error
	input := o.input
	o.input = nil // see operator.Operator
	if o.in, err = o.sub.rows(r, func() ([]plan.Row, error) { return operator.Rows(input) }); err != nil {
		return nil, err
	}
	o.after = o.sub.Held // see vector.Releases
	for _, k := range o.sub.Matrix.NewSamplesAtStep {
		// Which of the query's steps they are for, the statistics do not need.
		r.Matrix.NewSamplesAtStep[0] += k
	}
	r.Held = o.after + operator.Points(o.in)
	if err := o.holdParams(); err != nil {
		return nil, err
	}
	o.series = make([]labels.Labels, len(o.in))
	for i := range o.in {
		o.series[i] = o.in[i].Labels
	}
	at, err := vector.LabelsAfter(r.Query, len(o.in), o.label, o.above)
	return &operator.Series{N: len(o.in), Labels: at}, err
}

// label are the labels of a series above the function.
func (o *subquery) label(i int) labels.Labels {
	if o.drops {
		return vector.DropNames(o.series[i])
	}
	return o.series[i]
}

// Drive implements operator.Operator.
func (o *subquery) Drive(out operator.Sink) error {
	r := o.r
	o.workers = r.WorkersFor(len(o.in) * r.job.Grid.Steps)
	defer func() { r.Charge(-operator.RowsBytes(o.in)) }()
	if err := o.begin(out); err != nil {
		return err
	}
	frames := &frame.Frames{Span: frame.Span{
		Grid: r.job.Grid, Scan: &plan.Scan{Offset: o.n.Offset, Fixed: o.n.Fixed}, Width: o.n.Width, Done: r.Context.Done(),
	}}
	defer frames.Release()
	err := o.evaluate(frames, func(s *worker, i int) (column.Samples, error) {
		s.times = s.times[:0]
		for _, run := range o.in[i].Runs {
			for k := range run.Len {
				s.times = append(s.times, o.n.Inner.At(int(run.First+k)))
			}
		}
		return column.NewSamples(s.times, o.in[i].Values), nil
	})
	if err != nil {
		return err
	}
	return o.end(func() error {
		r.Held -= operator.Points(o.in)
		return o.check(false, o.drops)
	})
}

// on is the evaluation of a node below r's, on a grid of its own. What it makes is
// released with what r does.
func (r *evaluation) on(g plan.Grid, n plan.Node) *evaluation {
	job := r.job
	job.Node, job.Grid = n, g
	sub := newEvaluation(r.Context, r.x, job)
	sub.tick = r.tick
	r.Matrix.Lend(sub.Matrix.Release)
	return sub
}

// rows evaluates something of r, which is part of above's evaluation.
func (r *evaluation) rows(above *evaluation, eval func() ([]plan.Row, error)) ([]plan.Row, error) {
	r.Held, r.Beside = above.Held, above.Beside
	rows, err := eval()
	above.absorb(r.Matrix)
	return rows, err
}

// absorb adds what a node below took to r's own account, but for the samples of each
// step.
func (r *evaluation) absorb(m *plan.Matrix) {
	w, v := &r.Matrix.Work, &m.Work
	w.Series += v.Series
	w.Chunks += v.Chunks
	w.Samples += v.Samples
	w.Bytes += v.Bytes
	w.Kept += v.Kept
	w.Digested += v.Digested
	w.FetchMicros += v.FetchMicros
	if v.Device != nil {
		w.AddDevice(v.Device)
	}
	r.Matrix.Peak, r.Matrix.PeakAtMost = max(r.Matrix.Peak, m.Peak), max(r.Matrix.PeakAtMost, m.PeakAtMost)
	r.Matrix.Annotations.Merge(m.Annotations)
}

// once evaluates the input of n at the first step and repeats its values at all steps.
func (r *evaluation) once(n *plan.Once) *operator.Finished {
	sub := r.on(n.Grid(r.job.Grid), n.Input)
	input := sub.build(n.Input)
	return r.finished(n, func() ([]plan.Row, error) {
		in, err := sub.rows(r, func() ([]plan.Row, error) { return operator.Rows(input) })
		if err != nil {
			return nil, err
		}
		for k := range r.job.Grid.Steps {
			r.Matrix.SamplesAtStep[k] += sub.Matrix.SamplesAtStep[0]
		}
		r.Matrix.NewSamplesAtStep[0] += sub.Matrix.NewSamplesAtStep[0]
		return r.repeated(n, in)
	})
}

// repeated are the values of rows, which have one each, at all steps.
func (r *evaluation) repeated(n *plan.Once, in []plan.Row) ([]plan.Row, error) {
	steps := r.job.Grid.Steps
	points := len(in) * steps
	if err := r.CheckHeld(n, r.Held+points, r.Held+points); err != nil {
		return nil, err
	}
	r.Charge(int64(len(in))*operator.RowBytes(steps) - operator.RowsBytes(in))
	if err := r.Done(); err != nil {
		return nil, err
	}
	runs := []plan.Run{{Len: int32(steps)}}
	out := make([]plan.Row, len(in))
	for i := range in {
		out[i] = plan.Row{Labels: in[i].Labels, Values: slices.Repeat(in[i].Values[:1], steps), Runs: runs}
	}
	return out, nil
}
