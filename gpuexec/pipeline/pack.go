package pipeline

import (
	"cmp"
	"slices"
	"sync"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/selection"
)

// Chunks that are used a second time are packed on the device: of a batch whose slabs are there already,
// what was decoded to columns is copied to tiles that take 2 to 12 bytes a sample and from which windows
// are computed as from columns. kernels/abi/packed.h has the form. Later jobs decode nothing.

// Packs reports whether chunks of a selection are packed, or will be.
func (m *Machine) Packs(sel *selection.Selection) bool {
	share, _ := m.Store.Share(sel)
	return share >= 0.5 && m.Kernels.Loaded(launch.Pack...)
}

// packs is a block of packed tiles that is made by a job.
type packs struct {
	block *resident.Block
	part  *layout.Part
	key   uint64
	words []abi.PackedWord
}

// key is that of a block of a batch: samples differ by whether stale markers are left out.
func (j *Job) key(b layout.Block) uint64 {
	if j.Drop {
		return b.Key
	}
	return ^b.Key
}

// packed finds the packed tiles of a batch, which it pins.
func (j *Job) packed(p *prepared) {
	p.words = make([]abi.PackedWord, p.Total.Positions)
	keys := make([]uint64, len(p.Blocks))
	for k, b := range p.Blocks {
		keys[k] = j.key(b)
	}
	for k, b := range j.Store.FindTiles(keys) {
		if b == nil {
			p.unpacked = append(p.unpacked, k)
			continue
		}
		p.slot.pinned = append(p.slot.pinned, b)
		copy(p.words[p.Blocks[k].From:p.Blocks[k].To], b.Words)
	}
}

// allPacked reports whether all chunks of a request are packed, which are pinned if they are. Without
// columns, batches have many more series, and there are few.
func (j *Job) allPacked(r layout.Room) bool {
	if r.Runs == 0 || !j.Packs(j.Selected.Sel) {
		return false
	}
	r.Packed = true
	for y := layout.New(j.Store, j.Selected, r); ; {
		b, err := y.Batch(len(j.ready))
		if b == nil && err == nil {
			return true
		}
		p := &prepared{Part: b, slot: &Slot{}}
		j.ready = append(j.ready, p)
		if err != nil || !j.pin(p, j.Feeder) {
			j.unready()
			return false
		}
	}
}

// unready unpins what allPacked has pinned and no batch has taken.
func (j *Job) unready() {
	for _, p := range j.ready {
		j.Store.Unpin(p.slot.pinned)
	}
	j.ready = nil
}

// pin pins what is packed of a batch, and its tables, which the lock is for, and reports whether that is all.
func (j *Job) pin(p *prepared, tables sync.Locker) bool {
	tables.Lock()
	there := j.tables(p)
	tables.Unlock()
	if !there {
		j.packed(p)
	}
	return len(p.unpacked) == 0
}

// tables finds the tables of a batch on the device, and pins what they speak of. No other job may do so.
func (j *Job) tables(p *prepared) bool {
	t := p.Resident
	if t == nil {
		return false
	}
	if j.Store.PinAll(t.Of) {
		p.slot.pinned, p.at = t.Of, cuda.Pointer(t.At.At)
		p.unpacked, p.fit = t.Unpacked, t.Unpacked
		return true
	}
	j.Store.Drop(t.At)
	p.Resident = nil
	return false
}

// pack packs blocks of a batch that is being decoded, as far as there is room, and waits for that.
func (j *Job) pack(q launch.Queue, p *prepared) error {
	if len(p.fit) == 0 || j.Fused || !j.Kernels.Loaded(launch.Pack...) {
		return nil
	}
	c, b := q.Context, p.slot.Batch
	measured, at := b.At(b.Output.Packs), b.At(b.Output.Words)
	words := layout.As[abi.PackedWord](p.slot.Staging, layout.Section{Size: b.Output.Words.Size})
	buf := layout.BytesOf(words)
	if err := cmp.Or(q.PackMeasure(&b.Batch, measured, at), c.CopyOut(buf, at, q.Stream), c.Wait(q.Stream)); err != nil {
		return err
	}
	sizes := slices.Clone(words)
	clear(words)
	for _, k := range p.fit {
		of := p.Blocks[k]
		size := uint64(0)
		for _, w := range sizes[of.From:of.To] {
			size += uint64(layout.Aligned(int(w.Bytes()), 256))
		}
		if slices.Contains(sizes[of.From:of.To], 0) {
			continue // times that are too far from each other
		}
		slab := j.Layout.Sel.Slab(int(of.Slab))
		block := j.Store.AddTiles(slab, size)
		if block == nil {
			break
		}
		to := block.At
		for i, w := range sizes[of.From:of.To] {
			words[of.From+i] = w.At(to)
			to += uint64(layout.Aligned(int(w.Bytes()), 256))
		}
		j.packs = append(j.packs, packs{block, p.Part, j.key(of), slices.Clone(words[of.From:of.To])})
	}
	if err := c.CopyIn(at, buf, q.Stream); err != nil {
		return err // what is there are no words
	}
	return q.PackColumns(&b.Batch, measured, at)
}

// publish has later jobs find what this one has packed, with tables of their own, unless it failed.
func (j *Job) publish(failed bool) {
	if len(j.packs) == 0 {
		return
	}
	blocks := make([]*resident.Block, len(j.packs))
	for i, p := range j.packs {
		blocks[i] = p.block
	}
	if failed {
		j.Store.Discard(blocks)
		return
	}
	j.Feeder.Lock()
	defer j.Feeder.Unlock()
	for _, p := range j.packs {
		j.Store.Publish(p.block, p.key, p.words)
		if t := p.part.Resident; t != nil {
			j.Store.Drop(t.At)
			p.part.Resident = nil
		}
	}
	j.Store.Unpin(blocks)
}
