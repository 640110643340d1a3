package cuda

import (
	"fmt"
	"unsafe"
)

// maxParams is the most parameters that a kernel of promwarp has.
const maxParams = 24

// Size counts threads in a block, or blocks in a grid.
type Size struct{ X, Y uint32 }

// Launch puts a kernel on a stream: grid blocks of block threads. Each parameter is in the
// lowest bytes of its 64 bits. There must be as many as the kernel declares: package launch
// sees to that.
func (c *Context) Launch(f Function, grid, block Size, s Stream, params ...uint64) error {
	if len(params) > maxParams {
		return fmt.Errorf("a kernel with %d parameters: at most %d are possible", len(params), maxParams)
	}
	for i, p := range params {
		c.values[i] = p
		c.params[i] = unsafe.Pointer(&c.values[i])
	}
	return c.call(callLaunchKernel, uintptr(f), uintptr(grid.X), uintptr(max(grid.Y, 1)), 1,
		uintptr(block.X), uintptr(max(block.Y, 1)), 1, 0, uintptr(s), uintptr(unsafe.Pointer(&c.params)), 0)
}
