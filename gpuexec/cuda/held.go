package cuda

import (
	"errors"
	"slices"
)

// Held is what a device's streams, events and memory are held by until Release. Once one of them could
// not be taken, Err says why, and no more are.
type Held struct {
	Err  error
	undo []func(*Context) error
}

// Stream takes a stream.
func (h *Held) Stream(c *Context) Stream { return take(h, c.NewStream, (*Context).DestroyStream) }

// Event takes an event.
func (h *Held) Event(c *Context) Event { return take(h, c.NewEvent, (*Context).DestroyEvent) }

// Memory takes n bytes of the device's memory.
func (h *Held) Memory(c *Context, n uint64) Pointer {
	return take(h, func() (Pointer, error) { return c.Alloc(n) }, (*Context).Free)
}

// Host takes n bytes of page-locked memory on the host.
func (h *Held) Host(c *Context, n int) []byte {
	return take(h, func() ([]byte, error) { return c.AllocHost(n) }, (*Context).FreeHost)
}

func take[T any](h *Held, make func() (T, error), free func(*Context, T) error) (v T) {
	if h.Err != nil {
		return v
	}
	if v, h.Err = make(); h.Err == nil {
		h.undo = append(h.undo, func(c *Context) error { return free(c, v) })
	}
	return v
}

// Release gives everything back, the last first.
func (h *Held) Release(c *Context) error {
	var errs []error
	for _, f := range slices.Backward(h.undo) {
		errs = append(errs, f(c))
	}
	h.undo = nil
	return errors.Join(errs...)
}
