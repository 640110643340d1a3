package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// Program says what a job makes of its batches. The methods are in the order in which a job
// calls them.
type Program interface {
	// Place takes device memory, by Take and FetchRest.
	Place()
	// Room adds what a batch needs of the memory that is left. It fails with an *Unsuited.
	Room(r *layout.Room) error
	// Begin puts preparing the job's memory on a stream.
	Begin(c *cuda.Context, s cuda.Stream) error

	// Back says what is copied back of a batch; of one without rows nothing is.
	Back(b *Batch) Back
	// Decode puts decoding a batch on a stream, Compute what is made of each series, and Reduce
	// what is made of the groups: behind that of the batch before.
	Decode(q launch.Queue, b *Batch) error
	Compute(q launch.Queue, b *Batch) error
	Reduce(q launch.Queue, b *Batch) error
	// Consume takes what came back of a batch, of one after the other.
	Consume(b *Batch, r *Returned) error

	// End puts what is left to do behind the last batch on a stream.
	End(c *cuda.Context, s cuda.Stream) error
	// Results notes what was fetched.
	Results(o *offload.Outcome) error
}

// Job is a pipeline of batches, each of which has a slot while it is under way. Its methods with names
// of a Program's decode each chunk to columns, and do nothing else.
type Job struct {
	*Machine
	Workspace *Workspace
	Program   Program
	Selected  layout.Selected
	Ended     func() error // why the request has ended; nil while it has not
	Drop      bool         // stale markers are left out
	Fused     bool         // decoding, and windows or runs, are one kernel
	Stages    *Stages      // what the job took is noted here, as far as it came

	Layout *layout.Layout
	Fault  layout.Section  // a uint64 for the first fault
	Total  layout.TileSize // of the batches that were put on their way

	consume  func(*offload.Rows) error // see Hand
	handed   bool                      // rows were handed over
	claimed  []*resident.Block         // until the job ends
	packs    []packs                   // to be found once it has ended
	chain    *prepared                 // of all series, if all are packed; or nil
	ready    []*prepared               // batches of which all is packed: all of them, if these have no columns
	copied   map[*resident.Block]bool  // slabs that came with it
	uploaded int                       // bytes of the workspace's uploads
	fetched  []byte                    // at the end, which may be memory of the workspace; see View

	// Device memory, from the workspace's beginning. From outcome on it is fetched at the end.
	outcome, size int
	Rest          cuda.Pointer // for the slots
	each          int          // bytes of a slot

	consuming chan error // a program is consuming what came back, and this is what came of it; or nil
	last      cuda.Event // of the last batch that was put on its way, or 0
	returned  cuda.Event // of the last batch whose rows are copied back, or 0
}

// Take takes device memory for as long as the job runs.
func (j *Job) Take(bytes int) layout.Section { return layout.Next(&j.size, bytes) }

// FetchRest has all that is taken from here on be fetched at the end.
func (j *Job) FetchRest() { j.outcome = j.size }

// At is where a section of the workspace's memory is.
func (j *Job) At(s layout.Section) cuda.Pointer { return j.Workspace.at + cuda.Pointer(s.At) }

// divide shares the memory that is left among the slots, and returns what a batch may take. It
// fails with an *Unsuited where nothing is left.
func (j *Job) divide() (r layout.Room, err error) {
	j.Fault = j.Take(8)
	if uint64(j.size) >= j.Workspace.size {
		// The values of the windows may fit nevertheless, batch by batch.
		return r, &Unsuited{Reason: "its groups, at every step or bucket, need more memory than the executor has on the device", WindowOnly: true}
	}
	j.Rest = j.Workspace.at + cuda.Pointer(j.size)
	j.each = int((j.Workspace.size-uint64(j.size))/uint64(len(j.Workspace.Slots))) &^ 255
	return layout.Room{Tables: len(j.Workspace.Slots[0].Staging), Device: j.each, Goal: min(j.each, j.GoodBatch), Fuses: j.Fused}, nil
}

// lay has the program place its memory and finds the layout. It fails with an *Unsuited where a tile
// of series does not fit.
func (j *Job) lay() error {
	j.Program.Place()
	r, err := j.divide()
	if err != nil {
		return err
	}
	if err := j.Program.Room(&r); err != nil {
		return err
	}
	if j.Stages.Fused = j.Fused; j.chained(r) {
		return nil
	}
	r.Packed = j.allPacked(r)
	j.Layout = layout.New(j.Store, j.Selected, r)
	_, err = j.Part(0)
	return err
}

// Claim returns where n bytes of device memory are that stay until the job has ended, besides the
// workspace's. It reports false where there is no room.
func (j *Job) Claim(n int) (at cuda.Pointer, ok bool) {
	b := resident.Add(j.Store, j, n)
	if b == nil {
		return 0, false
	}
	j.claimed = append(j.claimed, b)
	return cuda.Pointer(b.At), true
}

// Part returns batch n of the layout, or nil behind the last.
func (j *Job) Part(n int) (*layout.Part, error) {
	b, err := j.Layout.Batch(n)
	if errors.Is(err, layout.ErrNoRoom) {
		err = &Unsuited{Reason: err.Error()}
	}
	return b, err
}

// Places is the number of lanes of all batches.
func (j *Job) Places() int { return layout.Aligned(len(j.Selected.GroupOf), layout.Lanes) }

// Decode implements Program. Fused kernels decode and compute at once.
func (j *Job) Decode(q launch.Queue, b *Batch) error {
	if b.Chunks == 0 || j.Fused || !b.stored {
		return nil
	}
	if none := b.Output.Decoded; j.Layout.Room.Packed {
		return q.Context.Set(b.At(none), 0, uint64(none.Size), q.Stream) // of tiles without chunks: no samples
	}
	return q.DecodeSeries(&b.Batch)
}

// Reduce implements Program.
func (j *Job) Reduce(launch.Queue, *Batch) error { return nil }

// Back implements Program.
func (j *Job) Back(*Batch) Back { return Back{} }

// Consume implements Program.
func (j *Job) Consume(*Batch, *Returned) error { return nil }

// End implements Program.
func (j *Job) End(*cuda.Context, cuda.Stream) error { return nil }

// Clear puts filling a section on a stream.
func (j *Job) Clear(c *cuda.Context, s cuda.Stream, at layout.Section, v byte) error {
	if at.Size == 0 {
		return nil
	}
	return c.Set(j.At(at), v, uint64(at.Size), s)
}

// Upload copies a table to a section. What is on the stream must come behind all
// batches that are under way, whose staging memory a large table uses.
func Upload[T any](j *Job, c *cuda.Context, s cuda.Stream, to layout.Section, table []T) error {
	if room := j.Workspace.uploads[j.uploaded:]; len(layout.BytesOf(table)) <= len(room) {
		n := copy(room, layout.BytesOf(table))
		j.uploaded += n
		return c.CopyIn(j.At(to), room[:n], s)
	}
	if err := c.Wait(s); err != nil {
		return err
	}
	staging, at := j.Workspace.Slots[0].Staging, j.At(to)
	for part := range slices.Chunk(layout.BytesOf(table), len(staging)) {
		n := copy(staging, part)
		if err := cmp.Or(c.CopyIn(at, staging[:n], s), c.Wait(s)); err != nil {
			return err
		}
		at += cuda.Pointer(n)
	}
	return nil
}

// Members are the series of each group, over all batches, in device memory.
type Members struct {
	Series layout.Section // uint32, those of one group after the other
	First  layout.Section // uint32 a group: where its series begin; and where the last one's end
}

// TakeMembers takes memory for that.
func (j *Job) TakeMembers() Members {
	return Members{j.Take(4 * len(j.Selected.GroupOf)), j.Take(4 * (j.Selected.Groups + 1))}
}

// Upload copies the table to the device.
func (m *Members) Upload(j *Job, c *cuda.Context, s cuda.Stream) error {
	first, members := j.Layout.Members()
	return cmp.Or(Upload(j, c, s, m.Series, members), Upload(j, c, s, m.First, first))
}

// PerThread is the number of steps of count that a thread of a kernel over a batch's series
// computes: as many as leave enough threads for the device, at least 16, and at most a quarter, so that blocks that
// are more than the device runs at once take less than as long again.
func (j *Job) PerThread(b *layout.Part, count uint32) uint32 {
	parts := max(4, j.ThreadGoal/4/uint32(len(b.Sizes)*layout.Lanes))
	return uint32(layout.Aligned(int(max(16, (count+parts-1)/parts)), abi.WindowLine))
}

// Corrupt is the error for the first of the corrupt chunks, if there is one, or for
// what no kernel can tell.
func (j *Job) Corrupt(fault uint64) error {
	if fault == abi.NoFault {
		return nil
	}
	if fault == abi.MixedZeros {
		return &Unsuited{Reason: "a quantile depends on how zeros of either sign are sorted"}
	}
	if fault == abi.LongRun {
		return &Unsuited{Reason: fmt.Sprintf("runs of more than %d samples are not sorted on the GPU", abi.LongestRun)}
	}
	sel := j.Selected.Sel
	sel.Discard()
	b, err := j.Part(int(fault >> 40))
	if err != nil {
		return err
	}
	series, c := j.Layout.Locate(b, int(fault>>8&(1<<32-1)))
	status := abi.Status(fault & 255)
	err = status.Err()
	if status == abi.Outside {
		err = fmt.Errorf("%w of %d to %d ms", err, c.MinT, c.MaxT)
	}
	return &selection.CorruptError{Series: sel.Labels(series), MinT: c.MinT, Err: err}
}

// View is a section among what was fetched at the end.
func View[T any](j *Job, s layout.Section) []T {
	return layout.As[T](j.fetched, layout.Section{At: s.At - j.outcome, Size: s.Size})
}
