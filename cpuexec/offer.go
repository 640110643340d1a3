package cpuexec

import (
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
)

// This file offers leaves to the accelerator and adds its outcomes to the evaluation.

// Drive implements operator.Operator. The accelerator computes the window, and what
// aggregates it, if there is one that accepts that.
func (s *selected) Drive(out operator.Sink) error {
	if s.accelerator == nil {
		return s.onCores(out)
	}
	if to, ok := out.(aggregate.Offloadable); ok {
		a := to.Layout()
		if l := LeafOf(a.Node); l != nil && l.Unsuited() == "" {
			l = l.over(s)
			l.GroupOf, l.Groups, l.Rooms = a.GroupOf, a.Groups, a.Rooms
			return s.offered(l, to)
		}
	}
	return s.offeredRows(out)
}

// offeredRows evaluates the window into out. The accelerator computes it if it accepts that.
func (s *selected) offeredRows(out operator.Sink) error {
	r, x := s.r, s.accelerator
	if x.Suits(LeafOf(s.w)) != "" {
		return s.onCores(out)
	}
	l := s.windowLeaf()
	if err := s.begin(out); err != nil {
		return err
	}
	o, err := x.Evaluate(r.Context, l, s.consume)
	if err := r.queryError(err); err != nil {
		return err
	}
	if o.Declined == "" {
		r.countLeaf(l, &o)
	}
	declined, start := o.Declined != "" && s.loop.Next == 0, time.Now() // of what the cores evaluate
	if err = s.onCores(out); declined && err == nil {
		x.OnCores(l, time.Since(start))
	}
	return err
}

// offered evaluates a leaf that is an aggregation, by the accelerator if it accepts
// that.
func (s *selected) offered(l *Leaf, out aggregate.Offloadable) error {
	x := s.accelerator
	accepted, windowOnly := x.Suits(l) == "", false
	start := time.Now()
	out.Offload(true)
	if _, cells, bytes := out.Size(); accepted && s.r.CheckCells(s.w, cells) == nil {
		s.r.Charge(bytes) // unless the leaf is declined
		if err := s.r.Done(); err != nil {
			return err
		}
		o, err := x.Evaluate(s.r.Context, l, nil)
		if err := s.r.queryError(err); err != nil {
			return err
		}
		if o.Declined == "" {
			return s.finish(l, out, &o)
		}
		s.r.Charge(-bytes)
		windowOnly, start = o.WindowOnly, time.Now()
	}
	out.Offload(false)
	if windowOnly {
		return s.offeredRows(out)
	}
	if err := s.onCores(out); err != nil {
		return err
	}
	if accepted {
		x.OnCores(l, time.Since(start))
	}
	return nil
}

// finish raises what Prometheus's engine raises of an aggregation that was computed, and
// puts its results into out.
func (s *selected) finish(l *Leaf, out aggregate.Offloadable, o *offload.Outcome) error {
	r, x := s.r, &o.Results
	hasPoints := make([]bool, len(l.GroupOf))
	limit, fits := operator.SampleLimit{Max: r.job.MaxSamples, Window: !l.Window.Func.Instant, Held: r.Held}, true
	const block = 8192 // series
	blocks := make([]operator.SampleLimit, (len(hasPoints)+block-1)/block)
	parallel.For(len(blocks), func(k int) {
		b := operator.SampleLimit{Window: limit.Window}
		has := hasPoints[k*block : min((k+1)*block, len(hasPoints))]
		for i, c := range x.Counts[k*block:][:len(has)] {
			has[i] = c.Points > 0
			b.Add(countsOf(c))
		}
		blocks[k] = b
	})
	if x.Release != nil {
		r.Matrix.Lend(x.Release)
	}
	for _, b := range blocks {
		fits = limit.Append(b) && fits
	}
	if !fits {
		return promql.ErrTooManySamples("query execution")
	}
	held := limit.Held - r.Held
	r.Matrix.Peak = max(r.Matrix.Peak, limit.Peak)
	r.Matrix.Work.Series += len(l.GroupOf)
	r.countSteps(x.All, x.Fresh)
	s.hasPoints = hasPoints
	if err := s.raise(held); err != nil {
		return err
	}
	if err := s.checkMaps(l, x, hasPoints, held); err != nil {
		return err
	}
	out.Offloaded(x, hasPoints)
	r.countLeaf(l, o)
	r.Held = min(r.Held, s.after)
	return r.Done()
}

// countLeaf adds what computing a leaf took to the statistics of the query.
func (r *evaluation) countLeaf(l *Leaf, o *offload.Outcome) {
	r.Matrix.Work.AddDevice(&plan.DeviceWork{
		Leaves: 1, Chunks: o.Work.Chunks, Samples: o.Work.Samples, Bytes: o.Work.Bytes, Micros: time.Since(l.start).Microseconds(),
	})
}

// checkMaps raises what Prometheus's engine raises once it has evaluated the maps of a
// leaf; points is the number of points of its input. It leaves in hasPoints the series that
// have some after the maps.
func (s *selected) checkMaps(l *Leaf, x *offload.Results, hasPoints []bool, points int) error {
	left := []int{points}
	for m, n := range l.Maps {
		if n.Filters() {
			points = 0
			for i := range hasPoints {
				points += int(x.Kept[m][i])
				hasPoints[i] = x.Kept[m][i] > 0
			}
		}
		left = append(left, points)
	}
	return s.above.Check(s.r.Query, left, len(hasPoints), s.held)
}

func countsOf(c offload.SeriesCounts) dense.Counts {
	return dense.Counts{Points: int(c.Points), MaxWindow: int(c.Most), LastWindow: int(c.Last)}
}

// queryError returns why the query has ended, or else err.
func (r *evaluation) queryError(err error) error {
	if ended := r.Done(); ended != nil {
		return ended
	}
	return err
}

// consume adds the next rows of a window that an accelerator computes: it applies the maps to them and
// hands them to the sink. Their memory is the matrix's if the sink retains it.
func (e *windowing) consume(x *offload.Rows) error {
	n, steps := len(x.Counts), e.r.job.Grid.Steps
	words := (steps + 63) / 64
	b := &operator.Batch{
		N: n, Steps: steps, Words: words, Counts: make([]dense.Counts, n),
		Values: x.Values, Each: x.Each, Present: x.Present[0][:n*words], Lent: x.Release != nil,
	}
	for i, c := range x.Counts {
		b.Counts[i] = countsOf(c)
	}
	defer func() {
		if x.Release != nil && b.Retained {
			e.r.Matrix.Lend(x.Release)
		} else if x.Release != nil {
			x.Release()
		}
	}()
	if err := e.r.Done(); err != nil {
		return err
	}
	if err := e.loop.Add(b); err != nil {
		return err
	}
	e.r.countSteps(x.All, x.Fresh)
	return nil
}
