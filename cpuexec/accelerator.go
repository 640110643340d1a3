package cpuexec

import (
	"context"
	"time"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// Accelerator computes leaves in place of the cores: windows, and what aggregates
// them. All else of a job stays here.
type Accelerator interface {
	// Aggregates reports whether aggregations of that form are leaves as a whole, with
	// the window below them. Of others the window alone is.
	Aggregates(n *plan.Aggregate) bool
	// Takes reports whether a leaf, by its node, may be worth offering. It is asked
	// once for each.
	Takes(n plan.Node) bool
	// Evaluate computes a leaf and hands what comes out to the leaf's Finish, or to
	// its TakeRows, or says in one plain sentence why it is left to the cores. These
	// go on behind the last row that was taken. An error is the query's; what goes
	// wrong with the accelerator itself is a reason.
	Evaluate(ctx context.Context, l *Leaf) (reason string, err error)
	// OnCores tells how long the cores took for a leaf that Evaluate left to them.
	OnCores(l *Leaf, took time.Duration)
}

// evaluate evaluates w, and the chain above it, over the series of src into out, by
// the accelerator if there is one that takes that.
func (r *run) evaluate(src *source, w *plan.Window, above chain, out operator.Sink) error {
	x := r.job.Accelerator
	if x == nil {
		return r.windowed(src, w, above, out, nil)
	}
	if l := r.leafInto(out, src, w, above); l != nil && x.Aggregates(l.Aggregate) {
		return r.offered(x, l, above, out)
	}
	return r.offeredRows(x, src, w, above, out)
}

// offeredRows evaluates w, and the chain above it, over the series of src into out.
// The accelerator computes the window if it takes that.
func (r *run) offeredRows(x Accelerator, src *source, w *plan.Window, above chain, out operator.Sink) error {
	if !x.Takes(w) {
		return r.windowed(src, w, above, out, nil)
	}
	l := r.rowsLeaf(src, w)
	left := false
	var start time.Time // of what is left to the cores
	err := r.windowed(src, w, above, out, func(e *windowing) error {
		l.rows = e
		reason, err := x.Evaluate(r.Context, l)
		if l.panicked != nil {
			panic(l.panicked)
		}
		if e := l.Err(); e != nil {
			return e
		}
		left, start = reason != "" && e.next == 0, time.Now()
		return err
	})
	if left && err == nil {
		x.OnCores(l, time.Since(start))
	}
	return err
}

// offered evaluates a leaf that is an aggregation, by the accelerator if it takes
// that.
func (r *run) offered(x Accelerator, l *Leaf, above chain, out operator.Sink) error {
	takes := x.Takes(l.Aggregate)
	start := time.Now()
	l.out.give(true)
	if takes && l.out.TooLarge(r.job.MaxSamples) == "" {
		reason, err := r.elsewhere(x, l)
		if err != nil || reason == "" {
			return err
		}
		start = time.Now()
	}
	l.out.give(false)
	if l.WindowOnly {
		return r.offeredRows(x, l.src, l.Window, above, out)
	}
	if err := r.windowed(l.src, l.Window, above, out, nil); err != nil {
		return err
	}
	if takes {
		x.OnCores(l, time.Since(start))
	}
	return nil
}

// elsewhere offers a leaf to an accelerator. The memory of its values is counted
// if it is taken.
func (r *run) elsewhere(x Accelerator, l *Leaf) (reason string, err error) {
	r.Charge(l.out.Bytes())
	if err := r.Done(); err != nil {
		return "", err
	}
	reason, err = x.Evaluate(r.Context, l)
	if e := l.Err(); e != nil {
		return "", e
	}
	if reason != "" {
		r.Charge(-l.out.Bytes())
	}
	return reason, err
}
