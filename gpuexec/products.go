package gpuexec

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan/offload"
)

// states are the product of the operators that add value to value.
type states struct {
	*queryJob
	policy abi.Policy
	all    layout.Section // a abi.State a group and step
	values layout.Section
}

func (p *states) Place() {
	p.all = p.Take(p.cells() * int(unsafe.Sizeof(abi.State{})))
	p.FetchRest()
	p.takeNotes(p.all)
	p.values = p.Take(p.cells() * 8)
}

func (p *states) Reduce(q launch.Queue, d *pipeline.Batch) error {
	g, n, few, least := &d.Groups, p.steps.Count, uint32(1200), 48 // warps that have a group each; series of one
	if p.policy.Name == "StdDev" || p.policy.Name == "StdVar" {
		few = 80 // as they are one chain
	}
	share := (n+31)/32*g.Count <= few && int(g.Count)*least <= len(d.Series)
	return q.Accumulate(g, n, p.policy.Number(), share, d.Out.Values, p.At(p.all))
}

func (p *states) End(c *cuda.Context, s cuda.Stream) error {
	n := uint64(p.cells())
	return p.Kernels.On(c, s).Results("group_result", n, p.At(p.all), n, p.policy.Number(), p.At(p.values))
}

func (p *states) Results(o *offload.Outcome) error {
	p.note(&o.Results)
	o.Results.Values = append(o.Results.Values, pipeline.View[float64](p.Job, p.values)...)
	return nil
}

// heaps are the product of topk and bottomk: Prometheus's heap for every group and
// step.
type heaps struct {
	*queryJob
	bottom       bool
	slots        layout.Section // uint32: group g has places for slots[g+1]-slots[g] elements at every step
	keys, places layout.Section // float64 and uint32, steps a slot
	filled       layout.Section // uint32 a group and step, elements of the heap
}

func (p *heaps) Place() {
	p.slots = p.Take(4 * (p.l.Groups + 1))
	p.FetchRest()
	cells := 0 // elements that all heaps may have
	for _, room := range p.l.Rooms {
		cells += room * p.l.Grid.Steps
	}
	p.keys, p.places, p.filled = p.Take(8*cells), p.Take(4*cells), p.Take(4*p.cells())
	p.takeNotes(p.filled)
}

func (p *heaps) Begin(c *cuda.Context, s cuda.Stream) error {
	slots := make([]uint32, 1, p.l.Groups+1)
	for g, room := range p.l.Rooms {
		slots = append(slots, slots[g]+uint32(room))
	}
	return cmp.Or(pipeline.Upload(p.Job, c, s, p.slots, slots), p.queryJob.Begin(c, s))
}

func (p *heaps) Reduce(q launch.Queue, d *pipeline.Batch) error {
	g, n := &d.Groups, p.steps.Count
	few := (n+31)/32*g.Count <= 1024 // warps that would have a group each
	return q.Rank(g, n, few, d.Out.Values, p.bottom, uint32(d.Base), p.At(p.slots), p.At(p.keys), p.At(p.places), p.At(p.filled))
}

func (p *heaps) Results(o *offload.Outcome) error {
	to := &o.Results
	p.note(to)
	keys, places := pipeline.View[float64](p.Job, p.keys), pipeline.View[uint32](p.Job, p.places)
	to.Values, to.Series = make([]float64, len(keys)), make([]int32, len(keys))
	to.Filled = slices.Clone(pipeline.View[int32](p.Job, p.filled))
	steps := p.l.Grid.Steps
	slots := make([]int, len(p.l.Rooms)) // the first of each group
	for g := 1; g < len(slots); g++ {
		slots[g] = slots[g-1] + p.l.Rooms[g-1]
	}
	parallel.For(len(slots), func(g int) {
		first, room := slots[g]*steps, p.l.Rooms[g]
		for k, n := range to.Filled[g*steps : (g+1)*steps] {
			for i := range int(n) {
				// The device has the first elements of all steps first, and so on.
				from, at := first+i*steps+k, first+k*room+i
				to.Values[at], to.Series[at] = keys[from], int32(places[from])
			}
		}
	})
	return nil
}

// quantiles are the product of the operator of that name. The values of all windows
// stay on the device until all are there.
type quantiles struct {
	*queryJob
	members pipeline.Members
	answers layout.Section
}

func (p *quantiles) Place() {
	p.stay = p.Take(8 * p.Places() * p.l.Grid.Steps)
	p.members = p.TakeMembers()
	p.FetchRest()
	p.answers = p.Take(8 * p.cells())
	p.takeNotes(layout.Section{})
}

func (p *quantiles) End(c *cuda.Context, s cuda.Stream) error {
	if err := p.members.Upload(p.Job, c, s); err != nil {
		return err
	}
	return p.Kernels.On(c, s).GroupQuantile(p.At(p.stay), p.steps.Count, p.At(p.members.Series), p.At(p.members.First),
		uint32(len(p.l.GroupOf)), uint32(p.l.Groups), p.l.Aggregate.Param, p.At(p.answers), p.At(p.Fault))
}

func (p *quantiles) Results(o *offload.Outcome) error {
	p.note(&o.Results)
	o.Results.Values = append(o.Results.Values, pipeline.View[float64](p.Job, p.answers)...)
	return nil
}
