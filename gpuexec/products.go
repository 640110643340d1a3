package gpuexec

import (
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
)

// states are the product of the operators that add value to value.
type states struct {
	reduced
	op     abi.Operator
	all    layout.Section // a abi.State a group and step
	values layout.Section
}

func (p *states) own(j *job, take func(int) layout.Section) {
	p.all = take(j.cells() * int(unsafe.Sizeof(abi.State{})))
}

func (p *states) out(j *job, take func(int) layout.Section) { p.values = take(j.cells() * 8) }

func (p *states) begin(j *job, c *cuda.Context, s cuda.Stream) error { return j.clear(c, s, p.all, 0) }

func (p *states) reduce(j *job, q launch.Queue, d *onDevice) error {
	return q.GroupAccumulate(d.out.Values, j.steps.Count, d.groups, p.op, j.at(p.all))
}

func (p *states) end(j *job, c *cuda.Context, s cuda.Stream) error {
	return j.queue(c, s).GroupResult(j.at(p.all), uint64(j.cells()), p.op, j.at(p.values))
}

func (p *states) results(j *job, fetched []byte, to *cpuexec.Results) {
	to.Values = slices.Clone(view[float64](j, fetched, p.values))
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

func (p *heaps) own(j *job, take func(int) layout.Section) { p.slots = take(4 * (j.l.Groups + 1)) }

func (p *heaps) out(j *job, take func(int) layout.Section) {
	cells := p.elements(j) * j.l.Grid.Steps
	p.keys, p.places, p.filled = take(8*cells), take(4*cells), take(4*j.cells())
}

func (p *heaps) begin(j *job, c *cuda.Context, s cuda.Stream) error {
	slots := make([]uint32, 1, j.l.Groups+1)
	for g, room := range j.l.Rooms {
		slots = append(slots, slots[g]+uint32(room))
	}
	if err := j.upload(c, s, p.slots, slots); err != nil {
		return err
	}
	return j.clear(c, s, p.filled, 0)
}

func (p *heaps) reduce(j *job, q launch.Queue, d *onDevice) error {
	return q.GroupRank(d.out.Values, j.steps.Count, d.groups, p.bottom, uint32(d.Base), launch.Heaps{
		Slots: j.at(p.slots), Keys: j.at(p.keys), Places: j.at(p.places), Filled: j.at(p.filled),
	})
}

func (p *heaps) end(*job, *cuda.Context, cuda.Stream) error { return nil }

func (p *heaps) results(j *job, fetched []byte, to *cpuexec.Results) {
	keys, places := view[float64](j, fetched, p.keys), view[uint32](j, fetched, p.places)
	to.Values, to.Series = make([]float64, len(keys)), make([]int32, len(keys))
	to.Filled = slices.Clone(view[int32](j, fetched, p.filled))
	series := make([]int32, j.places()) // at each place
	for i, place := range j.y.Places {
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

func (p *quantiles) own(j *job, take func(int) layout.Section) {
	p.values = take(8 * j.places() * j.l.Grid.Steps)
	p.members, p.first = take(4*len(j.l.GroupOf)), take(4*(j.l.Groups+1))
}

func (p *quantiles) out(j *job, take func(int) layout.Section) { p.answers = take(8 * j.cells()) }

func (p *quantiles) begin(*job, *cuda.Context, cuda.Stream) error { return nil }

// arrange has the values of all batches stay on the device.
func (p *quantiles) arrange(j *job, s *slot) {
	s.batch.out.Values = j.at(p.values) + cuda.Pointer(8*s.batch.Base*j.l.Grid.Steps)
}

func (p *quantiles) reduce(*job, launch.Queue, *onDevice) error { return nil }

func (p *quantiles) end(j *job, c *cuda.Context, s cuda.Stream) error {
	first := make([]uint32, j.l.Groups+1)
	for _, g := range j.l.GroupOf {
		first[g+1]++
	}
	for g := range j.l.Groups {
		first[g+1] += first[g]
	}
	next, members := slices.Clone(first), make([]uint32, len(j.l.GroupOf))
	for i, g := range j.l.GroupOf {
		members[next[g]] = j.y.Places[i]
		next[g]++
	}
	if err := j.upload(c, s, p.members, members); err != nil {
		return err
	}
	if err := j.upload(c, s, p.first, first); err != nil {
		return err
	}
	return j.queue(c, s).GroupQuantile(j.at(p.values), j.steps.Count, j.at(p.members), j.at(p.first),
		uint32(len(members)), uint32(j.l.Groups), j.l.Aggregate.Param, j.at(p.answers), j.at(j.fault))
}

func (p *quantiles) results(j *job, fetched []byte, to *cpuexec.Results) {
	to.Values = slices.Clone(view[float64](j, fetched, p.answers))
}
