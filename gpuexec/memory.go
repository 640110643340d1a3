package gpuexec

import (
	"errors"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/kernels/abi"
)

// cells is the number of groups times steps.
func (j *job) cells() int { return j.l.Groups * j.l.Grid.Steps }

// places is the number of places of all batches.
func (j *job) places() int { return layout.Aligned(len(j.l.GroupOf), layout.Lanes) }

// at is where a section of the workspace's memory is.
func (j *job) at(s layout.Section) cuda.Pointer { return j.workspace.at + cuda.Pointer(s.At) }

// goodBatch is the device memory in bytes that a batch should take: enough to fill a
// device, and little enough that there are several to overlap.
const goodBatch = 640 << 20

// place divides the workspace's memory and finds the layout.
func (j *job) place() error {
	take := func(bytes int) layout.Section {
		s := layout.Section{At: j.size, Size: bytes}
		j.size += layout.Aligned(bytes, 256)
		return s
	}
	j.product.own(j, take)
	j.outcome = j.size
	j.product.out(j, take)
	j.counts = take(j.places() * int(unsafe.Sizeof(abi.SeriesCounts{})))
	j.kept = take(len(j.maps) * j.places() * int(unsafe.Sizeof(uint32(0))))
	j.fault = take(8)
	j.reads = take(2 * 8 * j.l.Grid.Steps)
	if uint64(j.size) >= j.workspace.size {
		// The values of the windows may fit nevertheless, batch by batch.
		return &Unsuited{Reason: "its groups, at every step, need more memory than the executor has on the device", WindowOnly: true}
	}
	j.rest = j.workspace.at + cuda.Pointer(j.size)
	j.each = int((j.workspace.size-uint64(j.size))/uint64(len(j.workspace.slots))) &^ 255
	r := layout.Room{Tables: len(j.workspace.slots[0].staging), Device: j.each, Goal: min(j.each, j.x.goodBatch), Steps: j.l.Grid.Steps, Fuses: j.fuses}
	if j.panes != nil {
		r.Panes = j.panes.Bytes(abi.Operator(j.f.GPU.Number()))
	}
	if err := j.product.room(j, &r); err != nil {
		return err
	}
	j.y = layout.Of(j.x.store, j.l, r)
	_, err := j.batch(0)
	return err
}

// batch returns batch n of the layout, or nil behind the last.
func (j *job) batch(n int) (*layout.Part, error) {
	b, err := j.y.Batch(n)
	if errors.Is(err, layout.ErrNoRoom) {
		err = &Unsuited{Reason: err.Error()}
	}
	return b, err
}

// perThread is the number of steps that a thread of a window kernel computes: as
// many as leave enough threads for the device.
func (j *job) perThread(b *layout.Part) uint32 {
	parts := max(1, j.x.threadGoal/uint32(len(b.Sizes)*layout.Lanes))
	n := max(16, (j.steps.Count+parts-1)/parts)
	return uint32(layout.Aligned(int(n), abi.WindowAbreast))
}

// begin prepares what batches add to.
func (j *job) begin(c *cuda.Context) error {
	s := j.workspace.stream
	if err := j.product.begin(j, c, s); err != nil {
		return err
	}
	for _, p := range []struct {
		at layout.Section
		v  byte
	}{{j.counts, 0}, {j.kept, 0}, {j.fault, 0xFF}, {j.reads, 0}} {
		if err := j.clear(c, s, p.at, p.v); err != nil {
			return err
		}
	}
	return c.Record(j.workspace.ready, s)
}

// clear puts filling a section on a stream.
func (j *job) clear(c *cuda.Context, s cuda.Stream, at layout.Section, v byte) error {
	if at.Size == 0 {
		return nil
	}
	return c.Set(j.at(at), v, uint64(at.Size), s)
}

// upload copies a table to a section. What is on the stream must come behind all
// batches that are under way, whose staging memory it uses.
func (j *job) upload(c *cuda.Context, s cuda.Stream, to layout.Section, table []uint32) error {
	if err := c.Wait(s); err != nil {
		return err
	}
	staging := j.workspace.slots[0].staging
	from := layout.BytesOf(table)
	for at := j.at(to); len(from) > 0; {
		n := copy(staging, from)
		if err := c.CopyIn(at, staging[:n], s); err != nil {
			return err
		}
		if err := c.Wait(s); err != nil {
			return err
		}
		from, at = from[n:], at+cuda.Pointer(n)
	}
	return nil
}
