package probe

import (
	"errors"

	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// held is what a piece of work takes and gives back at its end, in the opposite
// order.
type held struct {
	c    *cuda.Context
	undo []func() error
}

// release gives everything back and adds what fails to err.
func (h *held) release(err *error) {
	for i := range h.undo {
		*err = errors.Join(*err, h.undo[len(h.undo)-1-i]())
	}
}

func (h *held) alloc(n uint64) (cuda.Pointer, error) {
	p, err := h.c.Alloc(n)
	if err == nil {
		h.undo = append(h.undo, func() error { return h.c.Free(p) })
	}
	return p, err
}

func (h *held) allocHost(n int) ([]byte, error) {
	b, err := h.c.AllocHost(n)
	if err == nil {
		h.undo = append(h.undo, func() error { return h.c.FreeHost(b) })
	}
	return b, err
}

func (h *held) stream() (cuda.Stream, error) {
	s, err := h.c.NewStream()
	if err == nil {
		h.undo = append(h.undo, func() error { return h.c.DestroyStream(s) })
	}
	return s, err
}

func (h *held) timer() (cuda.Event, error) {
	e, err := h.c.NewEvent(true)
	if err == nil {
		h.undo = append(h.undo, func() error { return h.c.DestroyEvent(e) })
	}
	return e, err
}
