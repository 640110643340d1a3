package pipeline

import (
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/resident"
)

// worthWhole says when a slab is copied as a whole, to stay on the device: if at least
// one in so many of its bytes is needed. Else only those are copied, for once.
const worthWhole = 8

// bring puts copying the slabs of a batch on its way, as far as they are not on the
// device. Those that there is no room for are left to describe.
func (j *Job) bring(p *prepared) error {
	f := j.Feeder
	f.Lock()
	defer f.Unlock()
	if t := p.Resident; t != nil {
		if all := append(slices.Clip(t.Slabs), t.At); j.Store.PinAll(all) {
			p.slot.pinned, p.at = all, cuda.Pointer(t.At.At)
			j.Stages.ResidentBytes += int64(p.Total.Encoded)
			return j.Dev.Do(func(c *cuda.Context) error { return c.Record(p.slot.marks[atCopied], f.Stream) })
		}
		j.Store.Drop(t.At)
		p.Resident = nil
	}
	p.bases = make([]uint64, j.Layout.Sel.NumSlabs())
	var fresh []*resident.Block
	var ts resident.Copies
	for _, u := range p.Part.Slabs {
		slab := j.Layout.Sel.Slab(u.Slab)
		b := j.Store.Find(slab)
		if b != nil {
			p.slot.pinned = append(p.slot.pinned, b)
			j.Stages.ResidentBytes += u.Bytes
		} else if u.Bytes*worthWhole >= int64(len(slab.Bytes())) {
			if b = j.Store.AddSlab(slab, !u.Kept); b != nil {
				fresh = append(fresh, b)
				j.Stages.CopiedBytes += int64(len(slab.Bytes()))
				ts.Add(slab, b)
			}
		}
		p.bases[u.Slab] = layout.Absent
		if b != nil {
			p.bases[u.Slab] = b.At
		}
	}
	p.slot.copies = true
	if err := f.Copy(&ts, p.slot.marks[atCopy]); err != nil {
		j.Store.Discard(fresh)
		return err
	}
	p.slot.pinned = append(p.slot.pinned, fresh...)
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
	loose := j.Layout.Fill(p.Part, p.slot.Staging, p.bases, rest, uint64(j.arena))
	f := j.Feeder
	f.Lock()
	defer f.Unlock()
	if err := f.Staged(loose); err != nil {
		return err
	}
	var stay *resident.Block // where the tables are to stay
	if len(loose) == 0 {
		stay = resident.AddTables(j.Store, j.Layout, p.In.Tables)
	}
	p.at = base
	if stay != nil {
		p.at = cuda.Pointer(stay.At)
	}
	err := j.Dev.Do(func(c *cuda.Context) error {
		if err := c.CopyIn(p.at, p.slot.Staging[:p.In.Tables], f.Stream); err != nil {
			return err
		}
		return c.Record(p.slot.marks[atCopied], f.Stream)
	})
	switch {
	case stay == nil:
	case err != nil:
		j.Store.Discard([]*resident.Block{stay})
	default:
		p.Resident = &layout.Tables{At: stay, Slabs: p.slot.pinned}
		p.slot.pinned = append(slices.Clip(p.slot.pinned), stay)
	}
	j.described += int64(p.In.Tables)
	for _, t := range loose {
		j.described += int64(len(t.From))
	}
	return err
}
