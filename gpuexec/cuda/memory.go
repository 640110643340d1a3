package cuda

import (
	"sync/atomic"
	"unsafe"
)

// hostBytes is what AllocHost took and FreeHost did not give back.
var hostBytes atomic.Int64

// HostBytes is the memory of the host, in bytes, that AllocHost took for all devices together.
func HostBytes() int64 { return hostBytes.Load() }

// Pointer is an address in a device's memory.
type Pointer uint64

// MemoryInfo returns the free and the total memory of the device in bytes.
func (c *Context) MemoryInfo() (free, total uint64, err error) {
	err = c.call(callMemGetInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, err
}

// Alloc takes memory on the device. n must not be 0.
func (c *Context) Alloc(n uint64) (p Pointer, err error) {
	return p, c.call(callMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
}

// Free gives memory on the device back, once all work on it is done.
func (c *Context) Free(p Pointer) error { return c.call(callMemFree, uintptr(p)) }

// AllocHost takes page-locked memory on the host, which the garbage collector
// does not know. n must not be 0.
func (c *Context) AllocHost(n int) ([]byte, error) {
	var p *byte
	const portable = 1 // page-locked for all devices
	if err := c.call(callMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), portable); err != nil {
		return nil, err
	}
	hostBytes.Add(int64(n))
	return unsafe.Slice(p, n), nil
}

// FreeHost gives back what AllocHost took, all of it. Of a device that failed the driver gives it
// back, so it counts as given back even on an error.
func (c *Context) FreeHost(b []byte) error {
	hostBytes.Add(-int64(cap(b)))
	return c.call(callMemFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// RegisterHost page-locks memory of the host. It must stay where it is until
// UnregisterHost.
func (c *Context) RegisterHost(b []byte) error {
	const portable = 1
	return c.call(callMemHostRegister, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), portable)
}

// UnregisterHost ends what RegisterHost began.
func (c *Context) UnregisterHost(b []byte) error {
	return c.call(callMemHostUnregister, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// CopyIn copies from the host to the device. It returns before the copy is made
// if the host's memory is page-locked, which must then be left alone until the
// stream has come past the copy.
func (c *Context) CopyIn(to Pointer, from []byte, s Stream) error {
	return c.call(callMemcpyHtoD, uintptr(to), uintptr(unsafe.Pointer(unsafe.SliceData(from))), uintptr(len(from)), uintptr(s))
}

// CopyOut copies from the device to the host, with the same condition.
func (c *Context) CopyOut(to []byte, from Pointer, s Stream) error {
	return c.call(callMemcpyDtoH, uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(from), uintptr(len(to)), uintptr(s))
}

// Set sets n bytes of the device's memory to v.
func (c *Context) Set(p Pointer, v byte, n uint64, s Stream) error {
	return c.call(callMemset, uintptr(p), uintptr(v), uintptr(n), uintptr(s))
}
