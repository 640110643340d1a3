// Package probe finds out whether a device computes rightly, how long a launch takes, and how fast
// the link to it is. What a probe takes it gives back.
package probe

import (
	"encoding/binary"
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
