package resident

import (
	"errors"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/selection"
)

// ErrNoRoom is returned if a selection does not fit into the device's memory.
var ErrNoRoom = errors.New("the GPU's memory has no room for the selection's chunks")

// Keep copies a selection's slabs to a store, as far as they are not there. They stay as what
// jobs copy does: until others need the room, or nobody on the host has them any more.
func (f *Feeder) Keep(s *Store, sel *selection.Selection) error {
	f.Lock()
	defer f.Unlock()
	var held, fresh []*Block
	var ts Copies
	var err error
	for k := 0; k < sel.NumSlabs() && err == nil; k++ {
		slab := sel.Slab(k)
		if b := s.Find(slab); b != nil {
			held = append(held, b)
		} else if b = s.AddSlab(slab, false); b != nil {
			fresh = append(fresh, b)
			ts.Add(slab, b)
		} else {
			err = ErrNoRoom
		}
	}
	if err == nil {
		err = errors.Join(f.Copy(&ts, 0), f.dev.Do(func(c *cuda.Context) error { return c.Wait(f.Stream) }))
	}
	s.Unpin(held)
	if err != nil {
		s.Discard(fresh)
		return err
	}
	s.Unpin(fresh)
	return nil
}

// Forget gives the device memory of a selection's slabs to others, unless a job
// uses them.
func (s *Store) Forget(sel *selection.Selection) {
	for k := range sel.NumSlabs() {
		if b := s.Find(sel.Slab(k)); b != nil {
			s.Unpin([]*Block{b})
			s.Drop(b)
		}
	}
}
