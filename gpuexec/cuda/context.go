package cuda

import (
	"unsafe"
)

// Context makes calls for a device. It is only valid inside Device.Do.
type Context struct {
	*api
	values [maxParams]uint64
	params [maxParams]unsafe.Pointer
}

// Stream is a queue of work for the device. Work on one stream runs in its
// order, work on several at once.
type Stream uintptr

// NewStream makes a stream.
func (c *Context) NewStream() (s Stream, err error) {
	const nonBlocking = 1 // does not wait for the default stream
	return s, c.call(callStreamCreate, uintptr(unsafe.Pointer(&s)), nonBlocking)
}

// DestroyStream gives a stream back once its work is done.
func (c *Context) DestroyStream(s Stream) error { return c.call(callStreamDestroy, uintptr(s)) }

// Wait waits until the work on a stream is done and returns what went wrong
// in it. The thread sleeps meanwhile.
func (c *Context) Wait(s Stream) error { return c.call(callStreamSynchronize, uintptr(s)) }

// WaitEvent lets what comes next on a stream wait for an event on another.
func (c *Context) WaitEvent(s Stream, e Event) error {
	return c.call(callStreamWaitEvent, uintptr(s), uintptr(e), 0)
}

// Event is a place in a stream.
type Event uintptr

// NewEvent makes an event. Only a timed one can be given to Elapsed.
func (c *Context) NewEvent(timed bool) (e Event, err error) {
	flags := uintptr(eventBlockingSync)
	if !timed {
		flags |= eventNoTiming
	}
	return e, c.call(callEventCreate, uintptr(unsafe.Pointer(&e)), flags)
}

// DestroyEvent gives an event back.
func (c *Context) DestroyEvent(e Event) error { return c.call(callEventDestroy, uintptr(e)) }

// Record puts an event behind what is on the stream.
func (c *Context) Record(e Event, s Stream) error {
	return c.call(callEventRecord, uintptr(e), uintptr(s))
}

// Reached reports whether the device has come to the event.
func (c *Context) Reached(e Event) (bool, error) {
	r := Result(int32(invoke(c.addr[callEventQuery], uintptr(e))))
	switch r {
	case success:
		return true, nil
	case notReady:
		return false, nil
	}
	return false, c.fail(callEventQuery, r)
}

// WaitReached waits until the device has come to the event. The thread sleeps
// meanwhile.
func (c *Context) WaitReached(e Event) error { return c.call(callEventSynchronize, uintptr(e)) }

// Elapsed is the time between two events that were reached, in ms.
func (c *Context) Elapsed(from, to Event) (float64, error) {
	var ms float32
	err := c.call(callEventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to))
	return float64(ms), err
}
