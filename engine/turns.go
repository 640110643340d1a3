package engine

import (
	"context"
	"runtime"

	"golang.org/x/sync/semaphore"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
)

// Evaluations of many samples take turns on the cores, since each of them uses all: more
// at once would end no sooner, hold more memory, and keep small queries waiting for a core.

// manySamples is from how many samples on an evaluation takes turns: some milliseconds of a
// core.
const manySamples = 1 << 20

// newTurns returns the turns of evaluations of many samples on cores.
func newTurns() *semaphore.Weighted {
	return semaphore.NewWeighted(int64(max(2, runtime.GOMAXPROCS(0)/2)))
}

// inTurn has executors evaluate the query when its turn has come.
func (q *query) inTurn(ctx context.Context, job cpuexec.Job) (*plan.Matrix, error) {
	if q.e.opts.GPUs == nil { // which have a queue of their own
		done, err := q.e.Turn(ctx, q.samplesOf(job.Node))
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return q.e.cpu.Run(ctx, job)
}

// Turn waits until an evaluation of so many samples may have the cores; done ends that. It fails
// with Prometheus's error when ctx ends before.
func (e *Engine) Turn(ctx context.Context, samples int64) (done func(), err error) {
	if samples < manySamples {
		return func() {}, nil
	}
	if e.turns.Acquire(ctx, 1) != nil {
		return nil, plan.Ended(ctx)
	}
	return func() { e.turns.Release(1) }, nil
}

// samplesOf is how many samples were fetched for n and what is below it.
func (q *query) samplesOf(n plan.Node) (samples int64) {
	if w, ok := n.(*plan.Window); ok {
		if f := q.fetches.started(w); f != nil {
			if sel, _, err := f.get(); err == nil {
				samples += sel.NumSamples()
			}
		}
	}
	for _, in := range n.Inputs() {
		samples += q.samplesOf(in)
	}
	return samples
}
