package gpuexec

import (
	"context"
	"errors"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/selection"
)

// ErrNoRoom is returned by Keep if a selection does not fit into the device's memory.
var ErrNoRoom = errors.New("the GPU's memory has no room for the selection's chunks")

// Keep copies a selection's chunks to the device, as far as they are not there, so
// that the first job over them need not. They stay as what jobs copy does: until
// others need the room, or nobody on the host has them any more.
func (x *Executor) Keep(ctx context.Context, sel *selection.Selection) error {
	f := x.feeder
	f.mu.Lock()
	defer f.mu.Unlock()
	var held, fresh []*block
	var direct, staged []transfer
	var err error
	for k := 0; k < sel.NumSlabs() && err == nil; k++ {
		slab := sel.Slab(k)
		if b := x.store.find(slab); b != nil {
			held = append(held, b)
			continue
		}
		b := x.store.addSlab(slab, false)
		if b == nil {
			err = ErrNoRoom
			break
		}
		fresh = append(fresh, b)
		if to := (transfer{slab.Bytes(), b.at}); slab.PageLocked() {
			direct = append(direct, to)
		} else {
			staged = append(staged, to)
		}
	}
	if err == nil {
		err = errors.Join(ctx.Err(), x.lostBefore())
	}
	if err == nil {
		err = errors.Join(x.dev.Do(func(c *cuda.Context) error { return f.direct(c, direct) }), f.staged(staged))
		err = errors.Join(err, x.dev.Do(func(c *cuda.Context) error { return c.Wait(f.stream) }))
	}
	x.store.unpin(held)
	if err != nil {
		x.store.discard(fresh)
		return err
	}
	x.store.unpin(fresh)
	return nil
}

// Forget gives the device memory of a selection's chunks to others, unless a job
// uses them.
func (x *Executor) Forget(sel *selection.Selection) {
	for k := range sel.NumSlabs() {
		if b := x.store.find(sel.Slab(k)); b != nil {
			x.store.unpin([]*block{b})
			x.store.drop(b)
		}
	}
}
