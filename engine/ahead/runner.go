// Package ahead has the aggregations of a query evaluated over the parts of its fetches that have
// come, while the others are on their way.
//
// Parts come from the fetches that tell what Runner.Watch returns. One part at a time is
// evaluated, on all cores; the others wait. Those that still wait when everything has come are left
// to the evaluation of what else there is. Nothing is evaluated once Runner.End was called.
//
// Start with Runner.Watch.
package ahead

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Runner evaluates parts. A nil Runner evaluates none.
type Runner struct {
	ctx  context.Context // of the fetches
	turn Turn
	of   *cpuexec.Ahead

	mu      sync.Mutex
	waiting []arrival
	running chan struct{} // closed when no part is being evaluated; nil while none is
	ended   bool          // no more parts are evaluated
	took    []plan.Ahead
}

// Turn waits until an evaluation of so many samples may have the cores; done ends that.
type Turn func(ctx context.Context, samples int64) (done func(), err error)

// arrival is a part of what a selector matches.
type arrival struct {
	matchers []*labels.Matcher
	part     selection.Part
}

// New returns who evaluates parts by of, until ctx ends.
func New(ctx context.Context, of *cpuexec.Ahead, turn Turn) *Runner {
	return &Runner{ctx: ctx, turn: turn, of: of}
}

// Watch returns what is to be told of parts of what a selector matches, nil if they are of no use.
func (r *Runner) Watch(ms []*labels.Matcher) (came func(selection.Part)) {
	if r == nil || !r.of.Reads(ms) {
		return nil
	}
	return func(p selection.Part) { r.came(arrival{ms, p}) }
}

// came has a part evaluated. A fetch that others wait for, too, may go on when the query has ended.
func (r *Runner) came(one arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.waiting = append(r.waiting, one)
	if r.running == nil {
		r.running = make(chan struct{})
		go r.run(r.running)
	}
}

// run evaluates the parts that wait until there are none.
func (r *Runner) run(done chan struct{}) {
	defer close(done)
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 || r.ended {
			r.waiting, r.running = nil, nil
			r.mu.Unlock()
			return
		}
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		_ = parallel.Rescue(func() error { // the evaluation of all would fail likewise
			r.evaluate(next)
			return nil
		})
	}
}

func (r *Runner) evaluate(one arrival) {
	done, err := r.turn(r.ctx, one.part.Sel.NumSamples())
	if err != nil {
		return
	}
	defer done()
	began := time.Now()
	steps := r.of.Evaluate(r.ctx, one.matchers, one.part)
	if steps == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, plan.Ahead{From: one.part.MinT, To: one.part.MaxT, Steps: steps, Began: began, Ended: time.Now()})
}

// End has no more parts evaluated, and waits for the one that is. It returns what was evaluated, if
// something was, and what that took.
func (r *Runner) End() (*cpuexec.Ahead, []plan.Ahead) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	r.ended = true
	running := r.running
	r.mu.Unlock()
	if running != nil {
		<-running
	}
	if len(r.took) == 0 {
		return nil, nil
	}
	return r.of, r.took
}

// Idle reports whether no part waits or is being evaluated.
func (r *Runner) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running == nil
}
