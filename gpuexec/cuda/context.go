package cuda

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Context makes calls for a device. It is only valid inside Device.Do.
type Context struct {
	api
	values [maxParams]uint64
	params [maxParams]unsafe.Pointer
}

// Stream is a queue of work for the device. Work on one stream runs in its
// order, work on several at once.
type Stream uintptr

// NewStream makes a stream.
func (c *Context) NewStream() (s Stream, err error) {
	const nonBlocking = 1 // does not wait for the default stream
	return s, c.call("cuStreamCreate", uintptr(unsafe.Pointer(&s)), nonBlocking)
}

// DestroyStream gives a stream back once its work is done.
func (c *Context) DestroyStream(s Stream) error { return c.call("cuStreamDestroy_v2", uintptr(s)) }

// Wait waits until the work on a stream is done and returns what went wrong
// in it. The thread sleeps meanwhile.
func (c *Context) Wait(s Stream) error { return c.call("cuStreamSynchronize", uintptr(s)) }

// WaitEvent lets what comes next on a stream wait for an event on another.
func (c *Context) WaitEvent(s Stream, e Event) error {
	return c.call("cuStreamWaitEvent", uintptr(s), uintptr(e), 0)
}

// Event is a place in a stream.
type Event uintptr

// NewEvent makes an event.
func (c *Context) NewEvent() (e Event, err error) {
	return e, c.call("cuEventCreate", uintptr(unsafe.Pointer(&e)), eventBlockingSync)
}

// DestroyEvent gives an event back.
func (c *Context) DestroyEvent(e Event) error { return c.call("cuEventDestroy_v2", uintptr(e)) }

// Record puts an event behind what is on the stream.
func (c *Context) Record(e Event, s Stream) error {
	return c.call("cuEventRecord", uintptr(e), uintptr(s))
}

// WaitReached waits until the device has come to the event. The thread sleeps
// meanwhile.
func (c *Context) WaitReached(e Event) error { return c.call("cuEventSynchronize", uintptr(e)) }

// Elapsed is the time between two events that were reached, in ms.
func (c *Context) Elapsed(from, to Event) (float64, error) {
	var ms float32
	err := c.call("cuEventElapsedTime", uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to))
	return float64(ms), err
}

// HostBytes is the memory of the host, in bytes, that AllocHost took for all devices together and
// FreeHost did not give back.
var HostBytes atomic.Int64

// Pointer is an address in a device's memory.
type Pointer uint64

// MemoryInfo returns the free and the total memory of the device in bytes.
func (c *Context) MemoryInfo() (free, total uint64, err error) {
	err = c.call("cuMemGetInfo_v2", uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, err
}

// Alloc takes memory on the device. n must not be 0.
func (c *Context) Alloc(n uint64) (p Pointer, err error) {
	return p, c.call("cuMemAlloc_v2", uintptr(unsafe.Pointer(&p)), uintptr(n))
}

// Free gives memory on the device back, once all work on it is done.
func (c *Context) Free(p Pointer) error { return c.call("cuMemFree_v2", uintptr(p)) }

// AllocHost takes page-locked memory on the host, which the garbage collector
// does not know. n must not be 0.
func (c *Context) AllocHost(n int) ([]byte, error) {
	var p *byte
	const portable = 1 // page-locked for all devices
	if err := c.call("cuMemHostAlloc", uintptr(unsafe.Pointer(&p)), uintptr(n), portable); err != nil {
		return nil, err
	}
	HostBytes.Add(int64(n))
	return unsafe.Slice(p, n), nil
}

// FreeHost gives back what AllocHost took, all of it. Of a device that failed the driver gives it
// back, so it counts as given back even on an error.
func (c *Context) FreeHost(b []byte) error {
	HostBytes.Add(-int64(cap(b)))
	return c.call("cuMemFreeHost", uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// RegisterHost page-locks memory of the host. It must stay where it is until
// UnregisterHost.
func (c *Context) RegisterHost(b []byte) error {
	const portable = 1
	return c.call("cuMemHostRegister_v2", uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), portable)
}

// UnregisterHost ends what RegisterHost began.
func (c *Context) UnregisterHost(b []byte) error {
	return c.call("cuMemHostUnregister", uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// CopyIn copies from the host to the device. It returns before the copy is made
// if the host's memory is page-locked, which must then be left alone until the
// stream has come past the copy.
func (c *Context) CopyIn(to Pointer, from []byte, s Stream) error {
	return c.call("cuMemcpyHtoDAsync_v2", uintptr(to), uintptr(unsafe.Pointer(unsafe.SliceData(from))), uintptr(len(from)), uintptr(s))
}

// CopyOut copies from the device to the host, with the same condition.
func (c *Context) CopyOut(to []byte, from Pointer, s Stream) error {
	return c.call("cuMemcpyDtoHAsync_v2", uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(from), uintptr(len(to)), uintptr(s))
}

// Set sets n bytes of the device's memory to v.
func (c *Context) Set(p Pointer, v byte, n uint64, s Stream) error {
	return c.call("cuMemsetD8Async", uintptr(p), uintptr(v), uintptr(n), uintptr(s))
}

// Module is code loaded on a device.
type Module uintptr

// Function is a kernel of a module.
type Function uintptr

// The driver's numbers of the compiler's options.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// Load compiles PTX for the device, unless the driver has kept the result of an
// earlier time, and loads it. If the PTX does not compile the error holds what
// the compiler says.
func (c *Context) Load(ptx []byte) (m Module, err error) {
	source := append(bytes.Clone(ptx), 0)
	log := make([]byte, 8<<10)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&log[0])
	options := [...]int32{jitErrorLog, jitErrorLogSize}
	values := [...]uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log) - 1)}
	err = c.call("cuModuleLoadDataEx", uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&source[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&values)))
	if err == nil {
		return m, nil
	}
	if said := bytes.TrimSpace([]byte(text(&log[0]))); len(said) > 0 {
		err = fmt.Errorf("%w; its compiler says: %s", err, said)
	}
	return 0, err
}

// Unload gives a module back.
func (c *Context) Unload(m Module) error { return c.call("cuModuleUnload", uintptr(m)) }

// Function finds a kernel by its name.
func (c *Context) Function(m Module, name string) (f Function, err error) {
	s := append([]byte(name), 0)
	err = c.call("cuModuleGetFunction", uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&s[0])))
	if err != nil {
		return 0, fmt.Errorf("kernel %s: %w", name, err)
	}
	return f, nil
}

// maxParams is the most parameters that a kernel of promwarp has.
const maxParams = 28

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
	return c.call("cuLaunchKernel", uintptr(f), uintptr(grid.X), uintptr(max(grid.Y, 1)), 1,
		uintptr(block.X), uintptr(max(block.Y, 1)), 1, 0, uintptr(s), uintptr(unsafe.Pointer(&c.params)), 0)
}
