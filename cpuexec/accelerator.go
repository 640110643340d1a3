package cpuexec

import (
	"context"
	"time"

	"github.com/promwarp/promwarp/plan"
)

// Accelerator computes leaves in place of the cores: at present, aggregations
// that add value to value right over a window. All else of a job stays here.
type Accelerator interface {
	// Takes reports, before anything is fetched, whether a node may be worth
	// offering once its data is known.
	Takes(n plan.Node) bool
	// Evaluate computes a leaf and hands its values to the leaf's Finish, or says
	// in one plain sentence why it is left to the cores. An error is the query's;
	// what goes wrong with the accelerator itself is a reason.
	Evaluate(ctx context.Context, l *Leaf) (reason string, err error)
	// OnCores tells how long the cores took for a leaf that Evaluate left to them.
	OnCores(l *Leaf, took time.Duration)
}

// offered evaluates an aggregation over w, by the accelerator if it takes that.
func (r *run) offered(n *plan.Aggregate, w *plan.Window) (*aggregator, error) {
	x := r.job.Accelerator
	takes := x.Takes(n)
	src, err := r.open(w, nil)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	l := r.leaf(n, w, src)
	if takes && l.out.tooLarge(r.job.MaxSamples) == "" {
		reason, err := r.elsewhere(x, l)
		if err != nil || reason == "" {
			return l.out, err
		}
		start = time.Now()
	}
	if err := r.windowed(src, w, nil, l.out); err != nil {
		return nil, err
	}
	if takes {
		x.OnCores(l, time.Since(start))
	}
	return l.out, nil
}

// elsewhere offers a leaf to an accelerator. The memory of its values is counted
// if it is taken.
func (r *run) elsewhere(x Accelerator, l *Leaf) (reason string, err error) {
	l.out.given = true
	r.take(l.out.bytes())
	if err := r.done(); err != nil {
		return "", err
	}
	reason, err = x.Evaluate(r.ctx, l)
	if e := l.Err(); e != nil {
		return "", e
	}
	if reason != "" {
		r.take(-l.out.bytes())
		l.out.given = false
	}
	return reason, err
}
