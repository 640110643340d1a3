// Package pipeline is what all jobs on a GPU have in common: batches of series that are copied,
// decoded, computed and reduced on several streams, so that one batch is copied while another is
// computed.
//
// In goes a leaf's input and a Program, which says what is made of the samples of a batch; out
// come rows, batch by batch, and an Outcome. A Machine is what jobs run on: a device, its kernels, its
// memory, workspaces, the store of what stays.
//
//	 bring  ──────► Decode ────► Compute ────► Reduce ────► (Back) ─┐
//	 feeder's       slot's stream                                  │
//	 stream                                                        ▼
//	chunks and     chunks to    columns to    values to           Deliver: to the cores,
//	where they     columns      values        groups' states      batch by batch
//	lie                                            │
//	                                               └─ behind the last batch ─► Fetch
//
// While one batch is brought, another decodes and computes, and a third is reduced: that one
// comes behind the batch before it, so that values are added in the order of the series.
//
// Start with Machine.Evaluate, then Job.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/probe"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/selection"
)

// Options configure a Machine.
type Options struct {
	// Memory is the device memory in bytes that jobs are computed in, taken once, and that chunks stay in,
	// which is taken as it is needed, a Segment at a time: 0 means a sixth, 1 GiB at least.
	Memory, Segment uint64
	// Staging is the page-locked memory in bytes that the tables of one batch are
	// put together in, taken once for each slot of the large workspace, and a quarter of it for
	// those of small ones. 0 means 16 MiB. Chunks that are not in page-locked memory pass through 8
	// times as much.
	Staging int
	// Rows is the most page-locked memory in bytes that values which are copied back
	// stay in until the matrix that they are of is released. It is taken as it is
	// needed. 0 means 1 GiB. Values that there is no room for are copied once more, as
	// all are where it is negative.
	Rows int64
	// Host is the memory in bytes that the process may have, of which all staging takes an eighth at most,
	// and Rows another. 0 is no bound.
	Host int64
}

// Machine is what jobs run on: one device, on which a large job runs at a time, and several small
// ones beside it. It is safe for concurrent use. Whatever goes wrong on the device is an error that
// leaves the machine as it was, unless the device is lost (cuda.Lost); then all jobs fail.
type Machine struct {
	Dev     *cuda.Device
	Kernels *launch.Set
	// Programs are kernels of custom aggregates, which requests load.
	Programs launch.Programs
	Store    *resident.Store
	Feeder   *resident.Feeder
	Lender   *pinned.Lender
	Large    Workspaces
	Small    Workspaces
	// ThreadGoal is the number of threads worth starting for a kernel over a batch.
	ThreadGoal uint32
	// Memory is the device memory in bytes that jobs are computed in.
	Memory uint64
	// Link is how many bytes a second were measured to be copied to the device.
	Link float64
	// GoodBatch is the device memory in bytes that a batch should take: enough to fill a device, and
	// little enough that there are several to overlap.
	GoodBatch int
	// SmallJob is the most samples that a small job reads, and windows of all its series together: what takes a
	// few ms.
	SmallJob int64
	// FusedLongest is the longest window of a fused kernel, in chunks.
	FusedLongest float64

	held   cuda.Held
	origin cuda.Pointer // what entries of chunks count from
	chains sync.Mutex   // held while tables of chains are found, or said to be there

	lost atomic.Pointer[error] // why the device is of no use any more
}

// The number of batches of a job under way at once, and the size of a workspace's uploads.
const slotsOfLarge, slotsOfSmall, uploadsBytes = 4, 2, 256 << 10

// feeding is how often Staging chunks pass through, and stagings how often a machine takes it in all.
const feeding, stagings = 8, slotsOfLarge + mostSmall*slotsOfSmall/4 + feeding

// New takes a device's memory and returns a machine on it, which has the kernels of launch.First; others
// are loaded when they are needed, but for fused ones. The device stays the caller's.
func New(dev *cuda.Device, o Options) (*Machine, error) {
	if o.Staging <= 0 {
		o.Staging = 16 << 20
	}
	if o.Rows == 0 {
		o.Rows = 1 << 30
	}
	if o.Host > 0 {
		o.Staging, o.Rows = min(o.Staging, int(o.Host/8/stagings)&^4095), min(o.Rows, o.Host/8)
	}
	m := &Machine{
		Dev: dev, Programs: launch.Programs{Device: dev}, Lender: pinned.NewLender(dev, o.Rows),
		ThreadGoal: uint32(dev.Multiprocessors) * 4096, GoodBatch: 640 << 20, SmallJob: 64 << 20, FusedLongest: 1,
	}
	m.Kernels = launch.New(dev, launch.Queries()...)
	err := m.Kernels.Load(context.Background(), launch.First...)
	if err == nil {
		err = dev.Do(func(c *cuda.Context) error { return m.take(c, o) })
	}
	if err == nil {
		m.Store, err = resident.NewStore(m.segments(o))
	}
	if err != nil {
		return nil, fmt.Errorf("preparing GPU %d: %w", dev.Ordinal, errors.Join(err, dev.Do(m.release)))
	}
	return m, nil
}

// The memory in bytes that jobs get; the rest is for chunks to stay in. There are as many small
// workspaces, at most mostSmall, as have leastOfSmall each.
const (
	mostOfLarge  = 6 << 30
	leastOfSmall = 8 << 20
	mostOfSmall  = 512 << 20
	mostSmall    = 8
)

func (m *Machine) take(c *cuda.Context, o Options) (err error) {
	small := max(1, min(o.Memory/8/leastOfSmall, mostSmall))
	large, each := min(o.Memory/2, mostOfLarge)&^255, min(o.Memory/8/small, mostOfSmall)&^255
	m.Memory = large + small*each
	at := m.held.Memory(c, m.Memory)
	m.origin = at &^ (abi.EntryReach - 1)
	workspaces := func(n, size uint64, slots, staging int) Workspaces {
		all := make(Workspaces, n)
		for range n {
			w := &Workspace{pool: all, at: at, size: size}
			w.take(c, &m.held, slots, staging)
			at += cuda.Pointer(size)
			all <- w
		}
		return all
	}
	m.Large = workspaces(1, large, slotsOfLarge, o.Staging)
	m.Small = workspaces(small, each, slotsOfSmall, o.Staging/4)
	m.Feeder = resident.NewFeeder(m.Dev, c, &m.held, feeding*o.Staging)
	if m.held.Err != nil {
		return m.held.Err
	}
	w := <-m.Large
	defer w.Leave()
	l, n := w.Slots[0], min(o.Staging, int(w.size))
	t := probe.Timer{Context: c, Stream: l.Stream, Begin: l.marks[atCopy], End: l.marks[atCopied]}
	m.Link, err = t.Rate(n, func() error { return c.CopyIn(w.at, l.Staging[:n], l.Stream) })
	return err
}

// segments is the memory that the store may have.
func (m *Machine) segments(o Options) resident.Memory {
	all := o.Memory - m.Memory
	return resident.Memory{
		Segment: cmp.Or(o.Segment, all/max(1, min(6, all>>30))&^255), Limit: all,
		Alloc: func(n uint64) (at uint64, err error) {
			err = m.Dev.Do(func(c *cuda.Context) error {
				p, err := c.Alloc(n + 256) // so that no copy goes to two segments, which may be neighbours
				if at = uint64(p); err == nil && p&^(abi.EntryReach-1) != m.origin {
					err = cmp.Or(c.Free(p), error(cuda.OutOfMemory))
				}
				return err
			})
			return at, err
		},
		Free: func(at uint64) error {
			return m.Dev.Do(func(c *cuda.Context) error { return c.Free(cuda.Pointer(at)) })
		},
	}
}

// release gives back what was taken, as far as it was.
func (m *Machine) release(c *cuda.Context) error {
	return errors.Join(m.held.Release(c), m.Lender.Release(c), m.Programs.Unload(c), m.Kernels.Unload(c))
}

// Close gives everything back once the jobs under way are done.
func (m *Machine) Close() error {
	for range m.AtOnce() {
		select {
		case <-m.Large:
		case <-m.Small:
		}
	}
	return errors.Join(m.Store.Close(), m.Dev.Do(m.release))
}

// Fuses reports whether a fused kernel, which decodes chunks and computes windows in one go without
// storing samples, is for windows of a selection that share no sample, of which the longest takes so
// many ms. Each is computed by the thread that has the chunk in which it begins, so that windows longer
// than chunks would leave most threads without one. Fused kernels read XOR chunks alone: where there
// are XOR2 chunks, decode_mixed makes columns of all. It does not change a bit of the answer.
func (m *Machine) Fuses(sel *selection.Selection, longest int64) bool {
	return !sel.Has(chunkenc.EncXOR2) && longest <= int64(m.FusedLongest*float64(layout.ChunkSpan(sel)))
}

// AtOnce is the number of jobs that run at once.
func (m *Machine) AtOnce() int { return cap(m.Large) + cap(m.Small) }

// Begin waits for a workspace to be free. Who came first gets it first. The workspace must be left.
func (m *Machine) Begin(ctx context.Context, of Workspaces) (*Workspace, error) {
	select {
	case w := <-of:
		if lost := m.lost.Load(); lost != nil {
			w.Leave()
			return nil, *lost
		}
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Workspaces are those of one size that no job has. Small jobs have some for themselves, so that they
// need not wait for a large one: their batches take turns with its.
type Workspaces chan *Workspace

// Workspace is what one job has for itself while it is evaluated: device memory,
// streams, and memory to put tables together in.
type Workspace struct {
	pool   Workspaces
	at     cuda.Pointer
	size   uint64
	Slots  []*Slot
	stream cuda.Stream // what a job begins and ends with
	ready  cuda.Event  // the states are; times are counted from here
	ended  cuda.Event  // the last result was fetched
	last   cuda.Event  // all batches are done
	// uploads is page-locked memory for small tables, which need not wait for one another.
	uploads []byte
}

// Slot is what a batch has for itself while it is under way.
type Slot struct {
	Stream  cuda.Stream
	Staging []byte
	marks   [numMarks]cuda.Event
	back    cuda.Event // rows were copied back

	// Of the batch that has it.
	pinned []*resident.Block
	Batch  *Batch // nil until work is put on the stream
}

// free says that nothing of a batch is under way any more.
func (s *Slot) free() { s.pinned, s.Batch = nil, nil }

// mark is a place in a batch's work.
type mark int

const (
	atCopy mark = iota
	atCopied
	atBegin
	atDecoded
	atWindowed
	atReduce
	atReduced
	numMarks
)

func (s *Workspace) take(c *cuda.Context, h *cuda.Held, slots, staging int) {
	s.stream, s.uploads = h.Stream(c), h.Host(c, uploadsBytes)
	s.ready, s.ended, s.last = h.Event(c), h.Event(c), h.Event(c)
	for range slots {
		l := &Slot{Stream: h.Stream(c), back: h.Event(c), Staging: h.Host(c, staging)}
		for m := range l.marks {
			l.marks[m] = h.Event(c)
		}
		s.Slots = append(s.Slots, l)
	}
}

// Leave lets another job have the workspace.
func (s *Workspace) Leave() { s.pool <- s }
