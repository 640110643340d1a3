package cuda

import (
	"fmt"
	"math"
	"unsafe"
)

// maxParams is the most parameters that a kernel of promwarp has.
const maxParams = 24

// Size counts threads in a block, or blocks in a grid.
type Size struct{ X, Y uint32 }

// Launch puts a kernel on a stream: grid blocks of block threads, with shared
// bytes of memory that each block has for itself. The parameters must be of the
// types that the kernel declares; Pointer stands for pointers.
func (c *Context) Launch(f Function, grid, block Size, shared uint32, s Stream, params ...any) error {
	if len(params) > maxParams {
		return fmt.Errorf("a kernel with %d parameters: at most %d are possible", len(params), maxParams)
	}
	for i, p := range params {
		switch v := p.(type) {
		case Pointer:
			c.values[i] = uint64(v)
		case uint32:
			c.values[i] = uint64(v)
		case int32:
			c.values[i] = uint64(uint32(v))
		case uint64:
			c.values[i] = v
		case int64:
			c.values[i] = uint64(v)
		case float64:
			c.values[i] = math.Float64bits(v)
		default:
			return fmt.Errorf("kernel parameter %d is a %T, which no kernel takes", i, p)
		}
		c.params[i] = unsafe.Pointer(&c.values[i])
	}
	return c.call(callLaunchKernel, uintptr(f), uintptr(grid.X), uintptr(max(grid.Y, 1)), 1,
		uintptr(block.X), uintptr(max(block.Y, 1)), 1, uintptr(shared), uintptr(s), uintptr(unsafe.Pointer(&c.params)), 0)
}
