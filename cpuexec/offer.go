package cpuexec

import (
	"errors"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// This file offers leaves to the accelerator and adds its outcomes to the evaluation.

// evaluate evaluates w, and the chain above it, over the series of src into out, by
// the accelerator if there is one that accepts that.
func (r *run) evaluate(src *source, w *plan.Window, above vector.Chain, out operator.Sink) error {
	x := r.job.Accelerator
	if x == nil {
		return r.windowed(src, w, above, out, nil)
	}
	if to, ok := out.(aggregate.Offloadable); ok {
		if l := r.aggregationLeaf(src, w, above, to.Layout()); l != nil && x.Aggregates(l.Aggregate) {
			return r.offered(l, src, above, to)
		}
	}
	return r.offeredRows(src, w, above, out)
}

// offeredRows evaluates w, and the chain above it, over the series of src into out.
// The accelerator computes the window if it accepts that.
func (r *run) offeredRows(src *source, w *plan.Window, above vector.Chain, out operator.Sink) error {
	x := r.job.Accelerator
	if !x.Accepts(w) {
		return r.windowed(src, w, above, out, nil)
	}
	l := r.windowLeaf(src, w)
	declined := false
	var start time.Time // of what the cores evaluate
	err := r.windowed(src, w, above, out, func(e *windowing) error {
		c := &rowsConsumer{e: e}
		o, err := x.Evaluate(r.Context, l, c.consume)
		if c.panicked != nil {
			panic(c.panicked)
		}
		if c.err != nil {
			return c.err
		}
		if err := r.queryError(err); err != nil {
			return err
		}
		if o.Declined == "" {
			r.countLeaf(l, &o)
		}
		declined, start = o.Declined != "" && e.next == 0, time.Now()
		return nil
	})
	if declined && err == nil {
		x.OnCores(l, time.Since(start))
	}
	return err
}

// offered evaluates a leaf that is an aggregation, by the accelerator if it accepts
// that.
func (r *run) offered(l *Leaf, src *source, above vector.Chain, out aggregate.Offloadable) error {
	x := r.job.Accelerator
	accepted, windowOnly := x.Accepts(l.Aggregate), false
	start := time.Now()
	out.Offload(true)
	if accepted && out.TooLarge(r.job.MaxSamples) == "" {
		o, err := r.offload(l, src, out)
		if err != nil || o.Declined == "" {
			return err
		}
		windowOnly, start = o.WindowOnly, time.Now()
	}
	out.Offload(false)
	if windowOnly {
		return r.offeredRows(src, l.Window, above, out)
	}
	if err := r.windowed(src, l.Window, above, out, nil); err != nil {
		return err
	}
	if accepted {
		x.OnCores(l, time.Since(start))
	}
	return nil
}

// offload offers an aggregation to the accelerator and puts its results into out. Their
// memory is counted unless the leaf is declined.
func (r *run) offload(l *Leaf, src *source, out aggregate.Offloadable) (o Outcome, err error) {
	r.Charge(out.Bytes())
	if err := r.Done(); err != nil {
		return o, err
	}
	o, err = r.job.Accelerator.Evaluate(r.Context, l, nil)
	if err := r.queryError(err); err != nil {
		return o, err
	}
	if o.Declined != "" {
		r.Charge(-out.Bytes())
		return o, nil
	}
	return o, r.finish(l, src, out, &o)
}

// finish raises what Prometheus's engine raises of an aggregation that was computed, and
// puts its results into out.
func (r *run) finish(l *Leaf, src *source, out aggregate.Offloadable, o *Outcome) error {
	x := &o.Results
	hasPoints, held, peak := r.heldBy(l, x.Counts)
	if limit := r.job.MaxSamples; limit > 0 && peak > limit {
		return promql.ErrTooManySamples("query execution")
	}
	r.Matrix.Peak = max(r.Matrix.Peak, peak)
	r.Matrix.Work.Series += len(l.GroupOf)
	r.countSteps(x.All, x.Fresh)
	if err := r.check(l.Window, src, hasPoints); err != nil {
		return err
	}
	if err := r.checkTimestamps(l.Window, held, len(hasPoints)); err != nil {
		return err
	}
	if err := r.checkMaps(l, x, hasPoints, held); err != nil {
		return err
	}
	out.Offloaded(aggregate.Computed{Values: x.Values, Series: x.Series, Filled: x.Filled}, hasPoints)
	r.countLeaf(l, o)
	return r.Done()
}

// countLeaf adds what computing a leaf took to the statistics of the query.
func (r *run) countLeaf(l *Leaf, o *Outcome) {
	r.Matrix.Work.AddDevice(&plan.DeviceWork{
		Leaves: 1, Chunks: o.Work.Chunks, Samples: o.Work.Samples, Bytes: o.Work.Bytes, Micros: time.Since(l.start).Microseconds(),
	})
}

// countSteps adds samples of each step to the statistics of the query.
func (r *run) countSteps(all, fresh []int64) {
	for k := range all {
		r.Matrix.SamplesAtStep[k] += all[k]
		r.Matrix.NewSamplesAtStep[k] += fresh[k]
	}
}

// checkMaps raises what Prometheus's engine raises once it has evaluated the maps of a
// leaf, of whose input there are so many points. It leaves in hasPoints the series that
// have some after the maps.
func (r *run) checkMaps(l *Leaf, x *Results, hasPoints []bool, points int) error {
	kept := []int{points}
	var above vector.Chain
	for m, n := range l.Maps {
		above = append(above, n)
		if n.Filters() {
			points = 0
			for i := range hasPoints {
				left := x.Kept[m][i]
				points += int(left)
				hasPoints[i] = left > 0
			}
		}
		kept = append(kept, points)
	}
	return above.Check(r.Query, kept, len(hasPoints))
}

// heldBy goes over the counts of all series: which have points, how many points that
// are, and how many samples Prometheus's engine would hold at most.
func (r *run) heldBy(l *Leaf, all []SeriesCounts) (hasPoints []bool, points, peak int) {
	hasPoints = make([]bool, len(l.GroupOf))
	const block = 8192
	parts := make([]operator.SampleLimit, (len(hasPoints)+block-1)/block)
	parallel.For(len(parts), func(k int) {
		limit := operator.SampleLimit{Window: !l.Window.Func.Instant}
		for i := k * block; i < min((k+1)*block, len(hasPoints)); i++ {
			hasPoints[i] = all[i].Points > 0
			limit.Add(countsOf(all[i]))
		}
		parts[k] = limit
	})
	for _, p := range parts {
		peak = max(peak, r.Held+points+p.Peak)
		points += p.Held
	}
	return hasPoints, points, peak
}

func countsOf(c SeriesCounts) dense.Counts {
	return dense.Counts{Points: int(c.Points), MaxWindow: int(c.Most), LastWindow: int(c.Last)}
}

// rowsConsumer adds the rows of a leaf that is a window to the evaluation of the window.
type rowsConsumer struct {
	e        *windowing
	err      error
	panicked any // by the sink
}

// errPanicked ends the computation of a leaf whose rows made the sink panic.
var errPanicked = errors.New("what consumes the rows panicked")

// consume adds the next rows. It notes a panic, which is raised again in the goroutine
// that offered the leaf.
func (c *rowsConsumer) consume(x Rows) (err error) {
	defer func() {
		if c.panicked = recover(); c.panicked != nil {
			err = errPanicked
		}
		c.err = err
		err = ofQuery(err)
	}()
	held := false // by the matrix
	defer func() {
		if x.Release != nil && held {
			c.e.r.Matrix.Lend(x.Release)
		} else if x.Release != nil {
			x.Release()
		}
	}()
	if err := c.e.addRows(x, &held); err != nil {
		return err
	}
	c.e.r.countSteps(x.All, x.Fresh)
	return nil
}

// addRows applies the maps to rows and hands them to the sink. It notes whether the matrix
// holds their memory.
func (e *windowing) addRows(x Rows, held *bool) error {
	if err := e.r.Done(); err != nil {
		return err
	}
	n := len(x.Counts)
	b := &operator.Batch{
		Lo: e.next, N: n, Steps: e.b.Steps, Words: e.b.Words, Counts: make([]dense.Counts, n),
		Values: x.Values, Each: x.Each, Present: x.Present[:n*e.b.Words], Lent: x.Release != nil,
	}
	defer func() { *held = b.Retained }()
	const block = 64
	parallel.While(e.workers, (n+block-1)/block, func(k, part int) bool {
		for i := part * block; i < min((part+1)*block, n); i++ {
			b.Counts[i] = countsOf(x.Counts[i])
			vector.Apply(e.mappers, b.Row(i), &b.Counts[i], e.scratch[k].mapped)
		}
		return true
	})
	return e.consume(b)
}
