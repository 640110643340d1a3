package probe

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// linkBytes is the size of the copies that measure the link, at most.
const linkBytes = 128 << 20

// MeasureLink copies page-locked memory to the device and back and returns the
// best of a few times in bytes a second.
func MeasureLink(c *cuda.Context, free uint64) (to, from float64, err error) {
	h := &held{c: c}
	defer h.release(&err)
	n := int(min(linkBytes, max(free/4, 1)))
	s, err := h.stream()
	if err != nil {
		return 0, 0, err
	}
	host, err := h.allocHost(n)
	if err != nil {
		return 0, 0, err
	}
	device, err := h.alloc(uint64(n))
	if err != nil {
		return 0, 0, err
	}
	begin, err := h.timer()
	if err != nil {
		return 0, 0, err
	}
	end, err := h.timer()
	if err != nil {
		return 0, 0, err
	}
	best := func(enqueue func() error) (rate float64, err error) {
		for range 4 {
			ms, err := Timed(c, s, begin, end, enqueue)
			if err != nil {
				return 0, err
			}
			rate = max(rate, float64(n)/(ms/1000))
		}
		return rate, nil
	}
	if to, err = best(func() error { return c.CopyIn(device, host, s) }); err != nil {
		return 0, 0, err
	}
	from, err = best(func() error { return c.CopyOut(host, device, s) })
	return to, from, err
}

// Timed runs what enqueue puts on a stream and returns how long it took, in ms.
func Timed(c *cuda.Context, s cuda.Stream, begin, end cuda.Event, enqueue func() error) (float64, error) {
	if err := c.Record(begin, s); err != nil {
		return 0, err
	}
	if err := enqueue(); err != nil {
		return 0, err
	}
	if err := c.Record(end, s); err != nil {
		return 0, err
	}
	if err := c.WaitReached(end); err != nil {
		return 0, err
	}
	return c.Elapsed(begin, end)
}
