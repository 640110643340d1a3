package engine

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// ahead has the aggregations of a query evaluated over the parts of its fetches that have come,
// while the others are on their way. One part at a time is evaluated, on all cores; the others
// wait. Those that still wait when everything has come are evaluated with what else is left.
type ahead struct {
	e     *Engine
	ctx   context.Context // of the fetches
	of    *cpuexec.Ahead
	part  *planner.Part
	lease *memory.Lease

	mu      sync.Mutex
	waiting []arrival
	running chan struct{} // closed when no part is being evaluated; nil while none is
	ended   bool          // no more parts are evaluated
	took    []plan.Ahead
}

// arrival is a part of what a selector matches.
type arrival struct {
	matchers []*labels.Matcher
	part     selection.Part
}

// beginAhead returns who evaluates p ahead, or nil. What a whole query comes to may be found in any
// order of its steps; statistics and GPUs are for those who evaluate all at once.
func (q *query) beginAhead(ctx context.Context, p *planner.Part) *ahead {
	if q.mode != Auto && q.mode != CPU || q.stats || q.e.opts.GPUs != nil || !q.direct(p) {
		return nil
	}
	o := &q.e.opts.Prometheus
	// Nobody waits for it, so it takes no memory from those who do wait.
	lease := q.e.opts.Memory.SpareLease(memory.Evaluation)
	of := q.e.cpu.Ahead(cpuexec.Job{
		Node: p.Node, Grid: p.Grid, Budget: operator.NewBudget(ctx, q.e.opts.MaxMemory, lease),
		MaxSamples: o.MaxSamples, DelayedNameRemoval: o.EnableDelayedNameRemoval,
		TypeAndUnitLabels: o.EnableTypeAndUnitLabels, StartTimestamps: o.UseStartTimestamps,
	})
	if of == nil {
		return nil
	}
	return &ahead{e: q.e, ctx: ctx, of: of, part: p, lease: lease}
}

// watch returns the context in which what a selector matches is fetched.
func (a *ahead) watch(ctx context.Context, ms []*labels.Matcher) context.Context {
	if a == nil || !a.of.Reads(ms) {
		return ctx
	}
	return selection.OnPart(ctx, func(p selection.Part) { a.came(arrival{ms, p}) })
}

// came has a part evaluated. A fetch that others wait for, too, may go on when the query has ended.
func (a *ahead) came(one arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.waiting = append(a.waiting, one)
	if a.running == nil {
		a.running = make(chan struct{})
		go a.run(a.running)
	}
}

// run evaluates the parts that wait until there are none.
func (a *ahead) run(done chan struct{}) {
	defer close(done)
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 || a.ended {
			a.waiting, a.running = nil, nil
			a.mu.Unlock()
			return
		}
		next := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		_ = rescue.Do(func() error { // the evaluation of all would fail likewise
			a.evaluate(next)
			return nil
		})
	}
}

func (a *ahead) evaluate(one arrival) {
	done, err := a.e.Turn(a.ctx, one.part.Sel.NumSamples())
	if err != nil {
		return
	}
	defer done()
	began := time.Now()
	steps := a.of.Evaluate(a.ctx, one.matchers, one.part)
	if steps == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, plan.Ahead{From: one.part.MinT, To: one.part.MaxT, Steps: steps, Began: began, Ended: time.Now()})
}

// end has no more parts evaluated, and waits for the one that is. It returns what was evaluated, if
// something was and is of part p, and what that took.
func (a *ahead) end(p *planner.Part) (*cpuexec.Ahead, []plan.Ahead) {
	if a == nil {
		return nil, nil
	}
	a.mu.Lock()
	a.ended = true
	running := a.running
	a.mu.Unlock()
	if running != nil {
		<-running
	}
	if p != a.part || len(a.took) == 0 {
		return nil, nil
	}
	return a.of, a.took
}

// close ends a for good. Its context has ended.
func (a *ahead) close() {
	if a != nil {
		a.end(nil)
		a.lease.Release()
	}
}
