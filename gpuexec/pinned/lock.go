package pinned

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/selection/slab"
)

// PageLockSlabs lets a device page-lock the memory of slabs from now on, so that their
// chunks are copied to devices at the full speed of the link and without a core's
// help. Memory that cannot be locked is used as it is.
func PageLockSlabs(dev *cuda.Device) {
	slab.PageLock(func(memory []byte) func() {
		if err := dev.Do(func(c *cuda.Context) error { return c.RegisterHost(memory) }); err != nil {
			return nil
		}
		return func() {
			go func() {
				_ = dev.Do(func(c *cuda.Context) error { return c.UnregisterHost(memory) }) // fails where the device is closed
			}()
		}
	})
}
