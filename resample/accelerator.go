package resample

import (
	"context"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/selection"
)

// Choice is who computes a request.
type Choice byte

// The choices.
const (
	ChooseBySize Choice = iota // a GPU where that is expected to be faster
	ChooseCores
	ChooseGPU // whatever is expected
)

// Accelerator computes requests in place of the cores.
type Accelerator interface {
	// SuitsResample says why no data could have it compute a plan, or nothing.
	SuitsResample(p *Plan) string
	// Resample computes a task, or declines it, unless it is forced to compute all that it can.
	// What it has computed goes to consume, which is called by one goroutine at a time. An
	// error is the request's.
	Resample(ctx context.Context, t *Task, consume func(*Cells) error, forced bool) (Outcome, error)
	// TaskOnCores tells how long the cores took for a task.
	TaskOnCores(t *Task, took time.Duration)
}

// Task is a request over what its selectors matched, as an accelerator is offered it.
type Task struct {
	*Plan
	Selection *selection.Selection
	GroupOf   []int32 // of each series; at least one
	Groups    int
	Ended     func() error // why the request has ended; nil while it has not
}

// Outcome is what became of a task.
type Outcome struct {
	Declined string // why the cores are to compute it; else it was computed
	Reason   string // why the accelerator did
	Work     plan.Work
	Runs     int64
	Stages   []Stage
}

// Cells are what an accelerator has made of some groups.
type Cells struct {
	Groups []int32
	// Present are bitmaps, in whole words for each group, of the buckets that have samples: by
	// State.
	Present [][]uint64
	// Values come in parts of Each groups; the last may have fewer. Of each part they are by
	// aggregate of the request: for each group a value a bucket, anything where there are no samples.
	Values [][]float64
	Each   int
	// Release, if it is set, frees the memory of the values. It is called once: when the result
	// that holds the values is released, or before consume returns if no result holds them. Without
	// Release the caller may reuse the memory once consume returns.
	Release func()
}

// row is one of the rows of group i, of n buckets. There are so many aggregates.
func (c *Cells) row(i, aggregate, aggregates, n int) []float64 {
	part, at := i/c.Each, i%c.Each
	return c.Values[part*aggregates+aggregate][at*n : (at+1)*n : (at+1)*n]
}

// Source is what aggregates are of: the samples of a series, or the differences between them.
type Source struct {
	Differences bool
	Parts       aggregate.Parts // that the aggregates read
	Outputs     []int           // aggregates of the request
}

// Sources are those of the plan.
func (p *Plan) Sources() (all []Source) {
	for _, s := range p.sources {
		all = append(all, Source{s.rate, s.contents.Parts, s.outputs})
	}
	return all
}

// Reads are the times of the samples that are read, in ms: from <= t < to.
func (p *Plan) Reads() (from, to int64) { return p.from, p.to }

// States says which aggregates of the request a group's states are for: one state for each source,
// or for each aggregate whose values are aggregated again.
func (p *Plan) States() (outputs [][]int) {
	if p.Reaggregate == nil {
		for _, s := range p.sources {
			outputs = append(outputs, s.outputs)
		}
		return outputs
	}
	for a := range p.Aggregates {
		outputs = append(outputs, []int{a})
	}
	return outputs
}

// coresInstead warns of a request that a GPU should have computed. With strict it is its error.
const coresInstead = "executor=gpu: the request is not on a GPU: %s"

// offer offers the request to the accelerator. It reports whether that has computed it.
func (r *run) offer(a Accelerator, gs *groups) (done bool, err error) {
	r.result.Work.Executor, r.result.Work.Reason = "cpu", asked
	if r.Executor == ChooseCores {
		return false, nil
	}
	o := Outcome{Declined: unsuited(a, r.Plan)}
	switch {
	case o.Declined != "":
	case r.Limit > 0 && r.Limit < len(gs.labels):
		o.Declined = "it is over once its limit is reached"
	case len(gs.groupOf) == 0:
		r.result.Work.Reason = "there are no series"
		return true, nil
	default:
		accepted := accepting{run: r, groups: gs}
		o, err = a.Resample(r.ctx, r.task(gs), accepted.take, r.Executor == ChooseGPU)
		if o.Declined != "" || err != nil {
			accepted.undo()
		}
	}
	if err != nil {
		return false, err
	}
	if o.Declined == "" {
		r.result.Work.Executor, r.result.Work.Reason = "gpu", o.Reason
		r.work.add(o)
		return true, nil
	}
	r.result.Work.Reason = o.Declined
	if r.Executor == ChooseGPU {
		if r.Strict {
			return false, strictError(o.Declined)
		}
		r.result.Warnings.Add(fmt.Errorf(coresInstead, o.Declined))
	}
	return false, nil
}

// unsuited says why an accelerator computes a plan over no data at all, or nothing. The accelerator
// may be nil.
func unsuited(a Accelerator, p *Plan) string {
	if a == nil {
		return "no GPU is used"
	}
	return a.SuitsResample(p)
}

// strictError is the error of a request that must be on a GPU and is not.
func strictError(reason string) error {
	return &Error{CodeUnsupported, "executor", fmt.Sprintf(coresInstead, reason), "use auto or cpu, or leave strict out"}
}

// task is the request as it is offered.
func (r *run) task(gs *groups) *Task {
	return &Task{Plan: r.Plan, Selection: r.sel, GroupOf: gs.groupOf, Groups: len(gs.labels), Ended: func() error { return plan.Ended(r.ctx) }}
}

// add adds what an accelerator did.
func (w *counters) add(o Outcome) {
	w.series.Add(int64(o.Work.Series))
	w.chunks.Add(int64(o.Work.Chunks))
	w.samples.Add(o.Work.Samples)
	w.bytes.Add(o.Work.Bytes)
	w.runs.Add(o.Runs)
	w.stages = o.Stages
}
