// Package probe finds out whether a device computes rightly, how long a launch takes, and how fast
// the link to it is. What a probe takes it gives back.
package probe

import (
	"cmp"
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
	h := &cuda.Held{}
	defer func() { err = errors.Join(err, h.Release(c)) }()
	s, host := h.Stream(c), h.Host(c, 4*(count+count/abi.CheckBlock))
	device := h.Memory(c, uint64(len(host)))
	if h.Err != nil {
		return 0, h.Err
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
		err := k.On(c, s).Launch("check", cuda.Size{X: count / abi.CheckBlock}, cuda.Size{X: abi.CheckBlock}, device, uint32(count), deviceSums)
		if err := cmp.Or(err, c.Wait(s)); err != nil {
			return 0, err
		}
		if took := time.Since(start).Seconds(); seconds == 0 || took < seconds {
			seconds = took
		}
	}
	if err := cmp.Or(c.CopyOut(sums, deviceSums, s), c.Wait(s)); err != nil {
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
	h := &cuda.Held{}
	defer func() { err = errors.Join(err, h.Release(c)) }()
	n := int(min(linkBytes, max(free/4, 1)))
	t := Timer{c, h.Stream(c), h.Event(c), h.Event(c)}
	host, device := h.Host(c, n), h.Memory(c, uint64(n))
	if h.Err != nil {
		return 0, 0, h.Err
	}
	if to, err = t.Rate(n, func() error { return c.CopyIn(device, host, t.Stream) }); err != nil {
		return 0, 0, err
	}
	from, err = t.Rate(n, func() error { return c.CopyOut(host, device, t.Stream) })
	return to, from, err
}

// Timer times what is on a stream.
type Timer struct {
	*cuda.Context
	Stream     cuda.Stream
	Begin, End cuda.Event
}

// Rate has enqueue put copying n bytes on the stream a few times and returns the best rate, in bytes a
// second.
func (t *Timer) Rate(n int, enqueue func() error) (rate float64, err error) {
	for range 4 {
		err := cmp.Or(t.Record(t.Begin, t.Stream), enqueue(), t.Record(t.End, t.Stream), t.WaitReached(t.End))
		if err != nil {
			return 0, err
		}
		ms, err := t.Elapsed(t.Begin, t.End)
		if err != nil {
			return 0, err
		}
		rate = max(rate, float64(n)/(ms/1000))
	}
	return rate, nil
}
