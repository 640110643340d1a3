package resample

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
)

// Choice is who computes a request.
type Choice byte

// The choices.
const (
	ChooseBySize Choice = iota // a GPU where that is expected to be faster
	ChooseCores
	ChooseGPU // whatever is expected
)

// Task is a request over what its selectors matched, as an accelerator is offered it: its groups and
// the values of their buckets come back as offload.Rows.
type Task struct {
	*Plan
	offload.Input
}

// Selector implements offload.Leaf.
func (p *Plan) Selector() string { return fmt.Sprint(p.Selectors) }

// mostPrograms is the most custom aggregates of a request on a GPU: each is a pass over the samples.
const mostPrograms = 16

// Unsuited implements offload.Leaf.
func (p *Plan) Unsuited() string {
	customs := 0
	unsuited := func(d *aggregate.Definition) string {
		if d.NoGPU != "" {
			return fmt.Sprintf("the aggregate %s is not on the GPU: %s", d.Name, d.NoGPU)
		}
		code, reason := custom.PortableOf(d)
		if reason != "" {
			return fmt.Sprintf("a custom aggregate needs the cores: %s: %s", d.Name, reason)
		}
		if code != nil {
			customs++
		}
		return ""
	}
	for _, a := range p.Aggregates {
		if reason := unsuited(a.Definition); reason != "" {
			return reason
		}
	}
	if p.Reaggregate != nil {
		if reason := unsuited(p.Reaggregate); reason != "" {
			return reason
		}
	}
	if customs > mostPrograms {
		return fmt.Sprintf("more than %d custom aggregates are not computed at once on the GPU", mostPrograms)
	}
	return ""
}

// Size implements offload.Leaf.
func (t *Task) Size() offload.Size {
	s := t.Input.Size()
	s.Windows *= int64(len(t.Sources))
	var parts aggregate.Parts
	instructions := 0
	for _, of := range t.Sources {
		parts |= of.Contents.Parts
		if code, _ := custom.PortableOf(t.Aggregates[of.Outputs[0]].Definition); code != nil {
			instructions += code.Work()
		}
	}
	s.Function = "resample " + strings.Join(aggregate.PartNames(parts), "+")
	if instructions > 0 {
		s.Function += fmt.Sprintf("+2^%d instructions", bits.Len(uint(instructions)))
	}
	s.Results = 8 * int64(t.Groups) * int64(t.Windows) * int64(len(t.Aggregates))
	return s
}

// coresInstead warns of a request that a GPU should have computed. With strict it is its error.
const coresInstead = "executor=gpu: the request is not on a GPU: %s"

// offer offers the request to the accelerator. It reports whether that has computed it.
func (r *run) offer(gs *groups) (done bool, err error) {
	a := r.x.o.Accelerator
	r.result.Work.Executor, r.result.Work.Reason = "cpu", asked
	if r.Executor == ChooseCores {
		return false, nil
	}
	o := offload.Outcome{Declined: unsuited(a, r.Plan)}
	switch {
	case o.Declined != "":
	case r.Limit > 0 && r.Limit < len(gs.labels):
		o.Declined = "it is over once its limit is reached"
	case len(gs.groupOf) == 0:
		r.result.Work.Reason = "there are no series"
		return true, nil
	default:
		accepted := accepting{run: r, groups: gs}
		o, err = a.Evaluate(r.ctx, r.task(gs), accepted.take)
		if o.Declined != "" || err != nil {
			accepted.undo()
		}
	}
	if err != nil {
		return false, err
	}
	if o.Declined == "" {
		r.result.Work.Executor = "gpu"
		if r.Executor != ChooseGPU {
			r.result.Work.Reason = o.Reason
		}
		r.work.addOutcome(&o)
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
func unsuited(a offload.Accelerator, p *Plan) string {
	if a == nil {
		return "no GPU is used"
	}
	return a.Suits(&Task{Plan: p})
}

// strictError is the error of a request that must be on a GPU and is not.
func strictError(reason string) error {
	return &Error{CodeUnsupported, "executor", fmt.Sprintf(coresInstead, reason), "use auto or cpu, or leave strict out"}
}

// task is the request as it is offered.
func (r *run) task(gs *groups) *Task {
	return &Task{r.Plan, offload.Input{
		Selection: r.sel, From: r.from, To: r.to - 1, Windows: r.Grid.N(), GroupOf: gs.groupOf, Groups: len(gs.labels),
		Forced: r.Executor == ChooseGPU, Ended: func() error { return plan.Ended(r.ctx) },
	}}
}

// addOutcome adds what an accelerator did.
func (w *counters) addOutcome(o *offload.Outcome) {
	w.series += int64(o.Work.Series)
	w.Chunks += o.Work.Chunks
	w.Samples += o.Work.Samples
	w.Bytes += o.Work.Bytes
	w.runs += o.Runs
	if o.Choice != nil {
		w.stages = stages(o.Choice.Stages)
	}
}

// stages are what a request took on a GPU, by the device's own clock but for the first two.
func stages(s *plan.DeviceStages) (all []Stage) {
	if s.Compiled > 0 {
		all = append(all, Stage{"compile", s.Compiled})
	}
	return append(all, Stage{"device wait", s.Waited - s.Compiled}, Stage{"prepare", s.Prepare}, Stage{"transfer", s.Copy},
		Stage{"decode", s.Decode}, Stage{"count_uniqs", s.Window}, Stage{"merge", s.Reduce}, Stage{"fetch back", s.Result})
}

// accepting takes what an accelerator has computed.
type accepting struct {
	*run
	groups *groups

	x             *offload.Rows // that are taken
	holds         bool          // the result holds their values
	values, bytes int64         // that were counted
}

// togetherGroups is the number of groups whose rows a goroutine makes at once.
const togetherGroups = 64

// take makes the rows of groups. Values stay where they are if they may, and if they are at least
// half of what lies there: few values do not keep much memory from others. It fails as the cores
// would, which ends the request.
func (c *accepting) take(x *offload.Rows) error {
	c.x, c.holds = x, false
	defer func() {
		if x.Release != nil && !c.holds {
			x.Release()
		}
	}()
	values, buckets := int64(0), int64(0)
	for s, slot := range c.Slots {
		n := dense.Count(x.Present[s][:len(x.Groups)*c.words()])
		values += int64(n * len(slot.Outputs))
		if n < len(x.Groups)*c.Grid.N() {
			buckets += int64(n)
		}
	}
	rows := make([]Row, len(c.Aggregates)*len(x.Groups))
	bytes := int64(len(rows))*rowBytes(0) + 8*values + 4*buckets
	c.values, c.bytes = c.values+values, c.bytes+bytes
	if err := c.hold(int(values)); err != nil {
		return err
	}
	if err := c.chargeRows(bytes); err != nil {
		return err
	}
	if c.holds = x.Release != nil && 2*values >= int64(len(rows)*c.Grid.N()); c.holds {
		c.result.lent = append(c.result.lent, x.Release)
	}
	n := len(x.Groups)
	parallel.While(c.run.x.o.Workers, (n+togetherGroups-1)/togetherGroups, func(_, k int) bool {
		for i := k * togetherGroups; i < min((k+1)*togetherGroups, n); i++ {
			of := rows[i*len(c.Aggregates) : (i+1)*len(c.Aggregates) : (i+1)*len(c.Aggregates)]
			any := false
			for s, slot := range c.Slots {
				any = c.rows(of, slot.Outputs, s, i) || any
			}
			if g := x.Groups[i]; any {
				c.result.Series[g] = Series{c.groups.labels[g], of}
			}
		}
		return c.ctx.Err() == nil
	})
	return c.failed()
}

// words is the number of words of a group's bitmap.
func (c *accepting) words() int { return (c.Grid.N() + 63) / 64 }

// rows makes the rows of group i that are made of state s. It reports whether there are values.
func (c *accepting) rows(rows []Row, outputs []int, s, i int) bool {
	n, present := c.Grid.N(), c.x.Present[s][i*c.words():(i+1)*c.words()]
	count := dense.Count(present)
	if count == 0 {
		return false
	}
	buckets := c.result.whole
	if count < n {
		buckets = make([]int32, 0, count)
		for k, w := range present {
			for ; w != 0; w &= w - 1 {
				buckets = append(buckets, int32(64*k+bits.TrailingZeros64(w)))
			}
		}
	}
	var room []float64
	if !c.holds {
		room = make([]float64, count*len(outputs))
	}
	part, at := i/c.x.Each*len(c.Aggregates), i%c.x.Each*n
	for _, a := range outputs {
		from := c.x.Values[part+a][at : at+n : at+n]
		to := from[:count] // with room for fillings
		if !c.holds {
			to, room = room[:count:count], room[count:]
		}
		rows[a] = Row{buckets, to}
		if count == n && c.holds {
			continue
		}
		for i, k := range buckets {
			to[i] = from[k]
		}
	}
	return true
}

// undo forgets what was taken, since the cores begin anew.
func (c *accepting) undo() {
	clear(c.result.Series)
	c.result.giveBack()
	c.held.Add(-c.values)
	_ = c.chargeRows(-c.bytes) // if it has failed before, it shows later
}
