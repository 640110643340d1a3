package gpuexec

import (
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// worthWhole says when a slab is copied as a whole, to stay on the device: if at least
// one in so many of its bytes is needed. Else only those are copied, for once.
const worthWhole = 8

// bring puts copying the slabs of a batch on its way, as far as they are not on the
// device. Those that there is no room for are left to describe.
func (x *Executor) bring(j *job, p *prepared) error {
	f := x.feeder
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := p.onStore; t != nil {
		if all := append(slices.Clip(t.slabs), t.at); x.store.pinAll(all) {
			p.slot.pinned, p.at = all, cuda.Pointer(t.at.at)
			j.stages.ResidentBytes += int64(p.total.encoded)
			return x.dev.Do(func(c *cuda.Context) error { return c.Record(p.slot.marks[atCopied], f.stream) })
		}
		x.store.drop(t.at)
		p.onStore = nil
	}
	p.bases = make([]uint64, j.y.sel.NumSlabs())
	var fresh []*block
	var direct, staged []transfer
	for _, u := range p.batch.slabs {
		slab := j.y.sel.Slab(u.slab)
		b := x.store.find(slab)
		if b != nil {
			p.slot.pinned = append(p.slot.pinned, b)
			j.stages.ResidentBytes += u.bytes
		} else if u.bytes*worthWhole >= int64(len(slab.Bytes())) {
			if b = x.store.addSlab(slab, !u.kept); b != nil {
				fresh = append(fresh, b)
				j.stages.CopiedBytes += int64(len(slab.Bytes()))
				to := transfer{slab.Bytes(), b.at}
				if slab.PageLocked() {
					direct = append(direct, to)
				} else {
					staged = append(staged, to)
				}
			}
		}
		p.bases[u.slab] = absent
		if b != nil {
			p.bases[u.slab] = b.at
		}
	}
	p.slot.copies = true
	err := x.dev.Do(func(c *cuda.Context) error {
		if err := c.Record(p.slot.marks[atCopy], f.stream); err != nil {
			return err
		}
		return f.direct(c, direct)
	})
	if err == nil {
		err = f.staged(staged)
	}
	if err != nil {
		x.store.discard(fresh)
		return err
	}
	p.slot.pinned = append(p.slot.pinned, fresh...)
	return nil
}

// describe copies the tables of a batch, and the chunks whose slabs are not on the
// device, unless the tables are there already. base is where the memory of the
// batch's slot begins.
func (x *Executor) describe(j *job, p *prepared, base cuda.Pointer) error {
	if p.bases == nil {
		return nil
	}
	rest := uint64(base) + uint64(p.in.bytes.at)
	loose := j.y.fill(p.batch, p.slot.staging, p.bases, rest, uint64(x.arena))
	f := x.feeder
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.staged(loose); err != nil {
		return err
	}
	var stay *block // where the tables are to stay
	if len(loose) == 0 {
		stay = x.store.addTables(j.y, p.in.tables)
	}
	p.at = base
	if stay != nil {
		p.at = cuda.Pointer(stay.at)
	}
	err := x.dev.Do(func(c *cuda.Context) error {
		if err := c.CopyIn(p.at, p.slot.staging[:p.in.tables], f.stream); err != nil {
			return err
		}
		return c.Record(p.slot.marks[atCopied], f.stream)
	})
	switch {
	case stay == nil:
	case err != nil:
		x.store.discard([]*block{stay})
	default:
		p.onStore = &tables{stay, p.slot.pinned}
		p.slot.pinned = append(slices.Clip(p.slot.pinned), stay)
	}
	j.described += int64(p.in.tables)
	for _, t := range loose {
		j.described += int64(len(t.from))
	}
	return err
}
