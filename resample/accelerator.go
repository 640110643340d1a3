package resample

import (
	"context"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
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

// accepting takes what an accelerator has computed.
type accepting struct {
	*run
	groups *groups

	values, bytes int64 // that were counted
}

// togetherGroups is the number of groups whose rows a goroutine makes at once.
const togetherGroups = 64

// take makes the rows of groups. Values stay where they are if they may, and if they are at least
// half of what lies there: few values do not keep much memory from others. It fails as the cores
// would, which ends the request.
func (c *accepting) take(cells *Cells) error {
	holds := false // the result holds the values
	defer func() {
		if cells.Release != nil && !holds {
			cells.Release()
		}
	}()
	counts, values, buckets := c.count(cells)
	rows := make([]Row, len(c.Aggregates)*len(cells.Groups))
	bytes := int64(len(rows))*rowBytes(0) + 8*values + 4*buckets
	c.values, c.bytes = c.values+values, c.bytes+bytes
	if err := c.hold(int(values)); err != nil {
		return err
	}
	if err := c.budget.Charge(bytes); err != nil {
		return err
	}
	if holds = cells.Release != nil && 2*values >= int64(len(rows)*c.Grid.N()); holds {
		c.result.lent = append(c.result.lent, cells.Release)
	}
	states := c.States()
	c.split(cells, func(first, end int) {
		for i := first; i < end; i++ {
			of := rows[i*len(c.Aggregates) : (i+1)*len(c.Aggregates) : (i+1)*len(c.Aggregates)]
			any := false
			for s, outputs := range states {
				if count := int(counts[s][i]); count > 0 {
					any = true
					c.rows(of, outputs, cells, s, i, count, holds)
				}
			}
			if g := cells.Groups[i]; any {
				c.result.Series[g] = Series{c.groups.labels[g], of}
			}
		}
	})
	return c.failed()
}

// split calls f for ranges of the groups of cells, from several goroutines, until the request ends.
func (c *accepting) split(cells *Cells, f func(first, end int)) {
	n := len(cells.Groups)
	parallel.While(c.workers, (n+togetherGroups-1)/togetherGroups, func(_, k int) bool {
		f(k*togetherGroups, min((k+1)*togetherGroups, n))
		return c.ctx.Err() == nil
	})
}

// present is the bitmap of group i in state s.
func (c *accepting) present(cells *Cells, s, i int) []uint64 {
	words := (c.Grid.N() + 63) / 64
	return cells.Present[s][i*words : (i+1)*words]
}

// count says how many buckets have samples, by state and group, how many values that are, and how
// many buckets rows have to be told of.
func (c *accepting) count(cells *Cells) (counts [][]int32, values, buckets int64) {
	states := c.States()
	for range states {
		counts = append(counts, make([]int32, len(cells.Groups)))
	}
	var all, told atomic.Int64
	c.split(cells, func(first, end int) {
		values, buckets := 0, 0
		for s, outputs := range states {
			for i := first; i < end; i++ {
				n := dense.Count(c.present(cells, s, i))
				counts[s][i] = int32(n)
				values += n * len(outputs)
				if n < c.Grid.N() {
					buckets += n
				}
			}
		}
		all.Add(int64(values))
		told.Add(int64(buckets))
	})
	return counts, all.Load(), told.Load()
}

// rows makes the rows of group i that are made of state s, which has so many buckets with samples.
func (c *accepting) rows(rows []Row, outputs []int, cells *Cells, s, i, count int, holds bool) {
	n := c.Grid.N()
	buckets := c.result.whole
	if count < n {
		buckets = make([]int32, 0, count)
		for k, w := range c.present(cells, s, i) {
			for ; w != 0; w &= w - 1 {
				buckets = append(buckets, int32(64*k+bits.TrailingZeros64(w)))
			}
		}
	}
	var room []float64
	if !holds {
		room = make([]float64, count*len(outputs))
	}
	for _, a := range outputs {
		from := cells.row(i, a, len(c.Aggregates), n)
		to := from[:count] // with room for fillings
		if !holds {
			to, room = room[:count:count], room[count:]
		}
		rows[a] = Row{buckets, to}
		if count == n {
			if !holds {
				copy(to, from)
			}
			continue
		}
		for at, k := range buckets {
			to[at] = from[k]
		}
	}
}

// undo forgets what was taken, since the cores begin anew.
func (c *accepting) undo() {
	clear(c.result.Series)
	c.result.giveBack()
	c.held.Add(-c.values)
	_ = c.budget.Charge(-c.bytes) // if it has failed before, it shows later
}
