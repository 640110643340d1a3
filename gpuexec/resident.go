package gpuexec

import (
	"context"
	"errors"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/selection"
)

// resident is a selection whose chunk bytes are on the device.
type resident struct {
	at    cuda.Pointer
	bases []uint64 // of each slab, from at on
}

// Keep copies a selection's chunk bytes to device memory beside that of New, so
// that jobs over that very selection copy only where its chunks are.
func (x *Executor) Keep(ctx context.Context, sel *selection.Selection) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	defer x.end()
	if x.resident[sel] != nil || sel.NumSlabs() == 0 {
		return nil
	}
	r := &resident{bases: make([]uint64, sel.NumSlabs())}
	size := uint64(0)
	for k := range r.bases {
		r.bases[k] = size
		size += uint64(aligned(len(sel.Slab(k).Bytes()), 256))
	}
	return x.dev.Do(func(c *cuda.Context) (err error) {
		if r.at, err = c.Alloc(size); err != nil {
			return err
		}
		if err := x.copySlabs(c, r, sel); err != nil {
			return errors.Join(err, c.Free(r.at))
		}
		x.resident[sel] = r
		return nil
	})
}

// copySlabs copies by way of the staging memory of the first slot.
func (x *Executor) copySlabs(c *cuda.Context, r *resident, sel *selection.Selection) error {
	s := x.slots[0]
	for k, base := range r.bases {
		for from := sel.Slab(k).Bytes(); len(from) > 0; {
			n := copy(s.staging, from)
			if err := c.CopyIn(r.at+cuda.Pointer(base), s.staging[:n], s.stream); err != nil {
				return err
			}
			if err := c.Wait(s.stream); err != nil {
				return err
			}
			from, base = from[n:], base+uint64(n)
		}
	}
	return nil
}

// Forget gives back the device memory of a selection.
func (x *Executor) Forget(sel *selection.Selection) error {
	<-x.turn
	defer x.end()
	r := x.resident[sel]
	if r == nil {
		return nil
	}
	delete(x.resident, sel)
	return x.dev.Do(func(c *cuda.Context) error { return c.Free(r.at) })
}
