package cpuexec

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// subwindow evaluates a subquery's input on its own grid and applies the window
// function to the points.
func (r *run) subwindow(n *plan.Subwindow) ([]plan.Row, error) {
	in, err := r.subquery(n)
	if err != nil {
		return nil, err
	}
	defer r.Charge(-operator.RowsBytes(in))
	samples := operator.Points(in)
	r.Held += samples
	defer func() { r.Held -= samples }()
	vary, free, err := r.holdParams(n, n.Func, n.Params)
	defer free()
	if err != nil {
		return nil, err
	}
	steps := r.job.Grid.Steps
	workers := r.WorkersFor(len(in) * steps)
	sp := window.Span{Grid: r.job.Grid, Scan: &plan.Scan{Offset: n.Offset, Fixed: n.Fixed}, Width: n.Width, Done: r.Context.Done()}
	scratch, release := r.x.borrow(workers, steps, 0)
	defer release()
	fn := &window.Call{Func: window.Of(n.Func), Param: n.Param, Trend: n.Trend, Varying: vary}
	frames := window.NewFrames(sp)
	defer frames.Release()
	buffers := make([]dense.Row, workers)
	for i := range buffers {
		buffers[i] = dense.New(steps)
	}
	drops := !n.Func.KeepsName && !r.job.DelayedNameRemoval
	all := make([]plan.Row, len(in))
	counted := make([]dense.Counts, len(in))
	parallel.While(workers, len(in), func(k, i int) bool {
		s, out := scratch[k], buffers[k]
		if r.Done() != nil {
			return false
		}
		s.times = times(s.times[:0], n.Inner, in[i].Runs)
		clear(out.Present)
		if s.err = s.Evaluate(frames, fn, column.NewSamples(s.times, in[i].Values), out, &counted[i]); s.err != nil {
			return false
		}
		if counted[i].Points > 0 {
			r.Charge(operator.RowBytes(counted[i].Points))
			all[i] = out.Compact(counted[i].Points, in[i].Labels)
		}
		return true
	})
	if err := r.Done(); err != nil {
		return nil, err
	}
	frames.CountSamples(scratch[0].Steps)
	for _, s := range scratch {
		if s.err != nil {
			return nil, s.err
		}
		s.CountSamples()
		for k := range steps {
			r.Matrix.SamplesAtStep[k] += s.Steps.All[k]
		}
	}

	r.noteQuantiles(scratch, fn, n.ParamPos)

	limit := operator.SampleLimit{Max: r.job.MaxSamples, Window: true, Held: r.Held}
	rows := all[:0]
	seen := vector.Distinct{}
	var ls []labels.Labels
	for i := range all {
		if !limit.Add(counted[i]) {
			return nil, promql.ErrTooManySamples("query execution")
		}
		if counted[i].Points == 0 {
			continue
		}
		ls = append(ls, in[i].Labels)
		if drops {
			all[i].Labels = vector.DropNames(all[i].Labels)
			if !seen.Add(all[i].Labels) {
				return nil, vector.ErrSameLabels
			}
		}
		rows = append(rows, all[i])
	}
	r.Matrix.Peak = max(r.Matrix.Peak, limit.Peak)
	if n.Func.Counter {
		// Prometheus has put a selector without a position in the subquery's place.
		r.warnNonCounters(posrange.PositionRange{}, ls)
	}
	return rows, nil
}

// subquery evaluates the input of n on the subquery's grid.
func (r *run) subquery(n *plan.Subwindow) ([]plan.Row, error) {
	sub := r.on(n.Inner, n.Input)
	in, err := sub.node(n.Input)
	r.Held = sub.Held // see releases
	r.absorb(sub.Matrix)
	for _, k := range sub.Matrix.NewSamplesAtStep {
		// Which of the query's steps they are for, the statistics do not need.
		r.Matrix.NewSamplesAtStep[0] += k
	}
	return in, err
}

// on is the evaluation of a node below r's, on a grid of its own. What it makes is
// released with what r does.
func (r *run) on(g plan.Grid, n plan.Node) *run {
	job := r.job
	job.Node, job.Grid = n, g
	sub := newRun(r.Context, r.x, job)
	sub.Held, sub.latest = r.Held, r.latest
	r.Matrix.Lend(sub.Matrix.Release)
	return sub
}

// absorb adds what a node below took to r's own account, but for the samples of each
// step.
func (r *run) absorb(m *plan.Matrix) {
	w, v := &r.Matrix.Work, &m.Work
	w.Series += v.Series
	w.Chunks += v.Chunks
	w.Samples += v.Samples
	w.Bytes += v.Bytes
	w.Kept += v.Kept
	w.FetchMicros += v.FetchMicros
	w.AddDevice(v.Device)
	r.Matrix.Peak = max(r.Matrix.Peak, m.Peak)
	r.Matrix.Annotations.Merge(m.Annotations)
}

// times appends the times of the steps in runs to ts.
func times(ts []int64, g plan.Grid, runs []plan.Run) []int64 {
	for _, run := range runs {
		for k := run.First; k < run.First+run.Len; k++ {
			ts = append(ts, g.At(int(k)))
		}
	}
	return ts
}
