package gpuexec

import (
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
)

// states are the product of the operators that add value to value.
type states struct {
	reduced
	op     uint32
	all    layout.Section // a abi.State a group and step
	values layout.Section
}

func (p *states) own(j *job) {
	p.all = j.Take(j.cells() * int(unsafe.Sizeof(abi.State{})))
}

func (p *states) out(j *job) { p.values = j.Take(j.cells() * 8) }

func (p *states) begin(j *job, c *cuda.Context, s cuda.Stream) error { return j.Clear(c, s, p.all, 0) }

func (p *states) reduce(j *job, q launch.Queue, d *pipeline.Batch) error {
	return q.GroupAccumulate(d.Out.Values, j.steps.Count, d.Groups, p.op, j.At(p.all))
}

func (p *states) end(j *job, c *cuda.Context, s cuda.Stream) error {
	return j.Queue(c, s).GroupResult(j.At(p.all), uint64(j.cells()), p.op, j.At(p.values))
}

func (p *states) results(j *job, fetched []byte, to *cpuexec.Results) {
	to.Values = slices.Clone(pipeline.View[float64](j.Job, fetched, p.values))
}

// heaps are the product of topk and bottomk: Prometheus's heap for every group and
// step.
type heaps struct {
	reduced
	bottom               bool
	slots                layout.Section
	keys, places, filled layout.Section
}

// elements is how many all heaps of a step may have together.
func (p *heaps) elements(j *job) (n int) {
	for _, room := range j.l.Rooms {
		n += room
	}
	return n
}

func (p *heaps) own(j *job) { p.slots = j.Take(4 * (j.l.Groups + 1)) }

func (p *heaps) out(j *job) {
	cells := p.elements(j) * j.l.Grid.Steps
	p.keys, p.places, p.filled = j.Take(8*cells), j.Take(4*cells), j.Take(4*j.cells())
}

func (p *heaps) begin(j *job, c *cuda.Context, s cuda.Stream) error {
	slots := make([]uint32, 1, j.l.Groups+1)
	for g, room := range j.l.Rooms {
		slots = append(slots, slots[g]+uint32(room))
	}
	if err := pipeline.Upload(j.Job, c, s, p.slots, slots); err != nil {
		return err
	}
	return j.Clear(c, s, p.filled, 0)
}

func (p *heaps) reduce(j *job, q launch.Queue, d *pipeline.Batch) error {
	return q.GroupRank(d.Out.Values, j.steps.Count, d.Groups, p.bottom, uint32(d.Base), launch.Heaps{
		Slots: j.At(p.slots), Keys: j.At(p.keys), Places: j.At(p.places), Filled: j.At(p.filled),
	})
}

func (p *heaps) end(*job, *cuda.Context, cuda.Stream) error { return nil }

func (p *heaps) results(j *job, fetched []byte, to *cpuexec.Results) {
	keys, places := pipeline.View[float64](j.Job, fetched, p.keys), pipeline.View[uint32](j.Job, fetched, p.places)
	to.Values, to.Series = make([]float64, len(keys)), make([]int32, len(keys))
	to.Filled = slices.Clone(pipeline.View[int32](j.Job, fetched, p.filled))
	series := make([]int32, j.Places()) // at each place
	for i, place := range j.Layout.Places {
		series[place] = int32(i)
	}
	steps := j.l.Grid.Steps
	slots := make([]int, len(j.l.Rooms)) // the first of each group
	for g := 1; g < len(slots); g++ {
		slots[g] = slots[g-1] + j.l.Rooms[g-1]
	}
	parallel.For(len(slots), func(g int) {
		first, room := slots[g]*steps, j.l.Rooms[g]
		for k, n := range to.Filled[g*steps : (g+1)*steps] {
			for i := range int(n) {
				// The device has the first elements of all steps first, and so on.
				from, at := first+i*steps+k, first+k*room+i
				to.Values[at], to.Series[at] = keys[from], series[places[from]]
			}
		}
	})
}

// quantiles are the product of the operator of that name. The values of all windows
// stay on the device until all are there.
type quantiles struct {
	reduced
	values         layout.Section // of window kernels, of all places
	members, first layout.Section // the places of each group, and where they begin
	answers        layout.Section
}

func (p *quantiles) own(j *job) {
	p.values = j.Take(8 * j.Places() * j.l.Grid.Steps)
	p.members, p.first = j.Take(4*len(j.l.GroupOf)), j.Take(4*(j.l.Groups+1))
}

func (p *quantiles) out(j *job) { p.answers = j.Take(8 * j.cells()) }

func (p *quantiles) begin(*job, *cuda.Context, cuda.Stream) error { return nil }

// arrange has the values of all batches stay on the device.
func (p *quantiles) arrange(j *job, s *pipeline.Slot) {
	s.Batch.Out.Values = j.At(p.values) + cuda.Pointer(8*s.Batch.Base*j.l.Grid.Steps)
}

func (p *quantiles) reduce(*job, launch.Queue, *pipeline.Batch) error { return nil }

func (p *quantiles) end(j *job, c *cuda.Context, s cuda.Stream) error {
	first, members := j.Layout.Members(j.l.GroupOf, j.l.Groups)
	if err := pipeline.Upload(j.Job, c, s, p.members, members); err != nil {
		return err
	}
	if err := pipeline.Upload(j.Job, c, s, p.first, first); err != nil {
		return err
	}
	return j.Queue(c, s).GroupQuantile(j.At(p.values), j.steps.Count, j.At(p.members), j.At(p.first),
		uint32(len(members)), uint32(j.l.Groups), j.l.Aggregate.Param, j.At(p.answers), j.At(j.Fault))
}

func (p *quantiles) results(j *job, fetched []byte, to *cpuexec.Results) {
	to.Values = slices.Clone(pipeline.View[float64](j.Job, fetched, p.answers))
}
