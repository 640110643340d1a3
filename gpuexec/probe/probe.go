// Package probe finds out whether a device computes rightly, how long a launch takes, and how fast
// the link to it is. What a probe takes it gives back.
package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
)

// CheckKernels adds numbers on the device, compares the sums with those made
// here, and returns how long a launch and the wait for it take, in seconds.
func CheckKernels(c *cuda.Context, k *launch.Set) (seconds float64, err error) {
	const count = 64 * abi.CheckBlock
	h := &held{c: c}
	defer h.release(&err)
	s, err := h.stream()
	if err != nil {
		return 0, err
	}
	host, err := h.allocHost(4 * (count + count/abi.CheckBlock))
	if err != nil {
		return 0, err
	}
	device, err := h.alloc(uint64(len(host)))
	if err != nil {
		return 0, err
	}
	numbers, sums := host[:4*count], host[4*count:]
	want := make([]uint32, count/abi.CheckBlock)
	for i := range count {
		v := uint32(i) * 2654435761
		binary.LittleEndian.PutUint32(numbers[4*i:], v)
		want[i/abi.CheckBlock] += v
	}
	deviceSums := device + cuda.Pointer(len(numbers))
	if err := c.CopyIn(device, numbers, s); err != nil {
		return 0, err
	}
	for range 5 {
		if err := c.Wait(s); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := k.On(c, s).Launch("check", cuda.Size{X: count / abi.CheckBlock}, cuda.Size{X: abi.CheckBlock}, device, uint32(count), deviceSums); err != nil {
			return 0, err
		}
		if err := c.Wait(s); err != nil {
			return 0, err
		}
		if took := time.Since(start).Seconds(); seconds == 0 || took < seconds {
			seconds = took
		}
	}
	if err := c.CopyOut(sums, deviceSums, s); err != nil {
		return 0, err
	}
	if err := c.Wait(s); err != nil {
		return 0, err
	}
	for i, w := range want {
		if got := binary.LittleEndian.Uint32(sums[4*i:]); got != w {
			return 0, fmt.Errorf("it computes wrong sums: %d instead of %d; see nvidia-smi -q for memory errors", got, w)
		}
	}
	return seconds, nil
}

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
