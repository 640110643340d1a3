package pipeline

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
)

// prepared is a batch whose chunks are on the device or on their way there.
type prepared struct {
	*layout.Part
	slot     *Slot
	at       cuda.Pointer     // of its tables
	bases    []uint64         // device addresses of slabs, or nil if the tables are there already
	words    []abi.PackedWord // of its tiles of chunks, with bases
	unpacked []int            // blocks that are not packed
	fit      []int            // of these, which are to be
}

// batches puts all batches on their way, in order. The chunks of one are
// copied while the tables of the one before are made.
func (j *Job) batches() error {
	free := make(chan *Slot, len(j.Workspace.Slots))
	for _, s := range j.Workspace.Slots {
		free <- s
	}
	ready := make(chan *prepared, 1)
	stop := make(chan struct{})
	var planned error
	go func() {
		defer close(ready)
		for n := 0; ; n++ {
			var p *prepared
			err := parallel.Rescue(func() (err error) {
				p, err = j.prepare(n, free, stop)
				return err
			})
			if planned = err; p == nil || err != nil {
				return
			}
			ready <- p
		}
	}()
	start := time.Now()
	var err error
	for p := range ready {
		if err == nil {
			err = j.send(p)
			if err != nil {
				close(stop)
			}
		}
		free <- p.slot
	}
	j.Stages.Prepare = time.Since(start)
	return errors.Join(err, planned)
}

// prepare finds out about batch n, waits for a slot, and puts copying its chunks on
// their way. Behind the last batch, or after stop, it returns nil.
func (j *Job) prepare(n int, free <-chan *Slot, stop <-chan struct{}) (*prepared, error) {
	b, err := j.Part(n)
	if b == nil || err != nil {
		return nil, err
	}
	p := &prepared{Part: b, slot: <-free}
	select {
	case <-stop:
		return nil, nil
	default:
	}
	if err := j.Ended(); err != nil {
		return nil, err
	}
	if err := j.empty(p.slot); err != nil {
		return nil, err
	}
	return p, j.bring(p)
}

// empty waits for the batch that has a slot.
func (j *Job) empty(s *Slot) error {
	if s.Batch == nil {
		return nil
	}
	err := j.Dev.Do(func(c *cuda.Context) error {
		if s.Batch.buffers != nil {
			if err := c.WaitReached(s.back); err != nil {
				return err
			}
		}
		if err := c.WaitReached(s.marks[atReduced]); err != nil {
			return err
		}
		return j.Stages.add(c, s)
	})
	if err != nil {
		return err // the slot's blocks are in use until the job ends
	}
	if err := j.deliver(s); err != nil {
		return err
	}
	j.Store.Unpin(s.pinned)
	s.free()
	return nil
}

// send puts the rest of a batch's work on its way.
func (j *Job) send(p *prepared) error {
	if err := j.Ended(); err != nil {
		return err
	}
	base := j.Rest + cuda.Pointer(p.Number%len(j.Workspace.Slots)*j.each)
	if err := j.describe(p, base); err != nil {
		return err
	}
	p.slot.Batch = j.OnDevice(p.Part, p.at, base)
	p.slot.Batch.stored = len(p.unpacked) > 0 || p.Bare
	j.borrow(p.slot.Batch)
	if err := j.Dev.Do(func(c *cuda.Context) error { return j.enqueue(c, p) }); err != nil {
		return err
	}
	j.Total.Add(p.Total)
	j.Stages.Batches++
	return nil
}

// enqueue puts the stages of a batch on its slot's stream.
func (j *Job) enqueue(c *cuda.Context, p *prepared) error {
	s, m, d := p.slot.Stream, &p.slot.marks, p.slot.Batch
	q := j.Kernels.On(c, s)
	wait := func(e cuda.Event) func() error { return func() error { return c.WaitEvent(s, e) } }
	record := func(at mark) func() error { return func() error { return c.Record(m[at], s) } }
	work := []func() error{
		wait(j.Workspace.ready), wait(m[atCopied]),
		record(atBegin), func() error { return j.Program.Decode(q, d) },
		func() error { return j.pack(q, p) }, record(atDecoded), func() error { return j.Program.Compute(q, d) }, record(atWindowed),
	}
	if j.last != 0 {
		work = append(work, wait(j.last))
	}
	work = append(work, record(atReduce), func() error { return j.Program.Reduce(q, d) }, record(atReduced))
	for _, f := range work {
		if err := f(); err != nil {
			return err
		}
	}
	j.last = m[atReduced]
	return j.copyBack(c, p.slot)
}

// Batch is a batch, and where it lies on the device.
type Batch struct {
	*layout.Part
	launch.Batch
	Groups launch.Parts
	Output layout.Output // where what the kernels make of the batch goes, for At
	made   cuda.Pointer  // where Output begins

	back    Back
	buffers []*pinned.Buffer // that rows go to; nil where none do
	lent    bool             // they are page-locked memory, which is given back
	stored  bool             // some tile is not packed; one without chunks never is
}

// At is where a section of Output is.
func (b *Batch) At(s layout.Section) cuda.Pointer { return b.made + cuda.Pointer(s.At) }

// OnDevice says where a batch lies whose tables are at one address and the rest of
// it at another.
func (j *Job) OnDevice(p *layout.Part, tables, base cuda.Pointer) *Batch {
	in := p.In
	b := &Batch{Part: p, Output: layout.NewOutput(p, j.Layout.Room), made: base + cuda.Pointer(in.Size)}
	at := func(s layout.Section) cuda.Pointer { return tables + cuda.Pointer(s.At) }
	b.Groups = launch.Parts{Groups: at(in.Groups), Starts: at(in.Starts), Lanes: at(in.Lanes), Count: uint32(len(p.Groups))}
	b.Batch = launch.Batch{
		Slab: j.origin, Table: at(in.Table), Wide: at(in.Wide), Since: j.Layout.Since(),
		Mixed: j.Selected.Sel.Has(chunkenc.EncXOR2), Chunks: uint32(p.Total.Positions * layout.Lanes),
		First: at(in.First), KeyRows: at(in.KeyRows), Tiles: uint32(len(p.Sizes)),
		Columns: launch.Columns{Rows: at(in.Rows), Packed: at(in.Packed), Times: b.At(b.Output.Times), Values: b.At(b.Output.Values)},
		Decoded: b.At(b.Output.Decoded), Drop: j.Drop, Fault: j.At(j.Fault), FaultBase: uint64(p.Number) << 40,
	}
	return b
}

// bring puts copying the slabs of a batch on its way, as far as they are not on the
// device. Slabs without room are left to describe.
func (j *Job) bring(p *prepared) error {
	f := j.Feeder
	f.Lock()
	defer f.Unlock()
	if j.Layout.Room.Packed {
		r := j.ready[p.Number]
		p.at, p.words, p.slot.pinned, r.slot.pinned = r.at, r.words, r.slot.pinned, nil
	}
	if p.at != 0 || p.words == nil && j.tables(p) {
		j.Stages.ResidentBytes += int64(p.Total.Encoded)
		return j.Dev.Do(func(c *cuda.Context) error {
			return cmp.Or(c.Record(p.slot.marks[atCopy], f.Stream), c.Record(p.slot.marks[atCopied], f.Stream))
		})
	}
	p.bases = make([]uint64, j.Layout.Sel.NumSlabs())
	if p.words == nil {
		j.packed(p)
	}
	uses, left := j.Layout.Slabs(p.Part, p.words), p.Total.Encoded
	there := make([]bool, len(p.bases))
	var fresh []*resident.Block
	var staged []resident.Transfer // of memory that is not page-locked
	err := j.Dev.Do(func(c *cuda.Context) error {
		if err := c.Record(p.slot.marks[atCopy], f.Stream); err != nil {
			return err
		}
		for _, u := range uses {
			left -= int(u.Bytes)
			slab := j.Layout.Sel.Slab(u.Slab)
			b := j.Store.Find(slab)
			if b != nil {
				p.slot.pinned = append(p.slot.pinned, b)
				there[u.Slab] = !j.copied[b]
				j.Stages.ResidentBytes += u.Bytes
			} else if u.Bytes*resident.WorthWhole >= int64(len(slab.Bytes())) {
				if b = j.Store.AddSlab(slab); b != nil {
					j.copied[b] = true
					fresh = append(fresh, b)
					j.Stages.CopiedBytes += int64(len(slab.Bytes()))
					if !slab.PageLocked() {
						staged = append(staged, resident.Transfer{From: slab.Bytes(), To: b.At})
					} else if err := c.CopyIn(cuda.Pointer(b.At), slab.Bytes(), f.Stream); err != nil {
						return err
					}
				}
			} else {
				there[u.Slab] = true // what is packed is all that stays of it
			}
			p.bases[u.Slab] = layout.Absent
			if b != nil {
				p.bases[u.Slab] = b.At
			}
		}
		return nil
	})
	if err == nil {
		err = f.Staged(staged)
	}
	if err != nil {
		j.Store.Discard(fresh)
		return err
	}
	p.slot.pinned = append(p.slot.pinned, fresh...)
	j.Stages.ResidentBytes += int64(left)
	p.fit = slices.DeleteFunc(slices.Clone(p.unpacked), func(k int) bool { return !there[p.Blocks[k].Slab] })
	return nil
}

// describe copies the tables of a batch, and the chunks whose slabs are not on the
// device, unless the tables are there already. base is where the memory of the
// batch's slot begins.
func (j *Job) describe(p *prepared, base cuda.Pointer) error {
	if p.bases == nil {
		return nil
	}
	rest := uint64(base) + uint64(p.In.Bytes.At)
	loose := j.Layout.Fill(p.Part, p.slot.Staging, p.words, p.bases, rest, uint64(j.origin))
	f := j.Feeder
	f.Lock()
	defer f.Unlock()
	if err := f.Staged(loose); err != nil {
		return err
	}
	var stay *resident.Block // where the tables are to stay
	if len(loose) == 0 {
		stay = resident.Add(j.Store, j.Layout, p.In.Tables)
	}
	p.at = base
	if stay != nil {
		p.at = cuda.Pointer(stay.At)
	}
	err := j.Dev.Do(func(c *cuda.Context) error {
		return cmp.Or(c.CopyIn(p.at, p.slot.Staging[:p.In.Tables], f.Stream), c.Record(p.slot.marks[atCopied], f.Stream))
	})
	switch {
	case stay == nil:
	case err != nil:
		j.Store.Discard([]*resident.Block{stay})
	default:
		p.slot.pinned = append(p.slot.pinned, stay)
		p.Resident = &layout.Tables{At: stay, Of: p.slot.pinned, Unpacked: p.unpacked}
	}
	j.Stages.CopiedBytes += int64(p.In.Tables)
	for _, t := range loose {
		j.Stages.CopiedBytes += int64(len(t.From))
	}
	return err
}
