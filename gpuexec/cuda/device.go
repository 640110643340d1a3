package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// ErrClosed is returned by Do once the device is closed.
var ErrClosed = errors.New("the GPU is closed")

// Device is an opened device. One goroutine, locked to its thread, makes all
// calls for it, because a context of the driver belongs to a thread.
type Device struct {
	Info

	work   chan func(*Context)
	closed chan struct{} // no work is taken any more
	ended  chan struct{} // the goroutine is gone, err is set
	once   sync.Once
	err    error // of giving the context back
}

// blockingSync is the flag of contexts, and of events, on which waiting
// threads sleep.
const (
	contextBlockingSync = 4
	eventBlockingSync   = 1
	eventNoTiming       = 2
)

// Device opens a device. Its first opening takes some hundred milliseconds.
func (d *Driver) Device(ordinal int) (*Device, error) {
	info, handle, err := d.info(ordinal)
	if err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	dev := &Device{Info: info, work: make(chan func(*Context)), closed: make(chan struct{}), ended: make(chan struct{})}
	opened := make(chan error)
	go dev.own(d.api, handle, opened)
	err = <-opened
	switch {
	case err == nil:
		return dev, nil
	case errors.Is(err, deviceUnavailable), errors.Is(err, notPermitted), errors.Is(err, operatingSystem):
		err = &Unavailable{Forbidden, err}
	case Lost(err):
		err = fmt.Errorf("%w; a kernel failed on it, and it is of no use to this process until that is restarted", err)
	}
	return nil, fmt.Errorf("device %d: %w", ordinal, err)
}

// own is the goroutine that owns the device. Its thread ends with it.
func (dev *Device) own(a *api, handle int32, opened chan<- error) {
	runtime.LockOSThread()
	defer close(dev.ended)
	if err := retain(a, handle); err != nil {
		opened <- err
		return
	}
	opened <- nil
	// Also where work ends the goroutine, as a failing test does.
	defer func() {
		dev.once.Do(func() { close(dev.closed) })
		dev.err = release(a, handle)
	}()
	c := &Context{api: a}
	for {
		select {
		case f := <-dev.work:
			f(c)
		case <-dev.closed:
			return
		}
	}
}

// retain makes the device's primary context that of this thread.
func retain(a *api, handle int32) error {
	if err := a.call(callPrimaryCtxSetFlags, uintptr(handle), contextBlockingSync); err != nil {
		return err
	}
	var context uintptr
	if err := a.call(callPrimaryCtxRetain, uintptr(unsafe.Pointer(&context)), uintptr(handle)); err != nil {
		return err
	}
	if err := a.call(callCtxSetCurrent, context); err != nil {
		return errors.Join(err, a.call(callPrimaryCtxRelease, uintptr(handle)))
	}
	return nil
}

// release gives the context back, and with it all that is left in it.
func release(a *api, handle int32) error {
	err := a.call(callCtxSetCurrent, 0)
	return errors.Join(err, a.call(callPrimaryCtxRelease, uintptr(handle)))
}

// Do calls f on the device's thread and returns what it returns. The context is
// for f alone and must not be kept. f must not call Do. A panic of f comes out
// of Do, and so does runtime.Goexit, which closes the device.
func (dev *Device) Do(f func(*Context) error) error {
	var err error
	var panicked any
	exited := true
	done := make(chan struct{})
	work := func(c *Context) {
		defer close(done)
		defer func() {
			if panicked = recover(); panicked != nil {
				exited = false
			}
		}()
		err = f(c)
		exited = false
	}
	select {
	case <-dev.closed:
		return ErrClosed
	default:
	}
	select {
	case dev.work <- work:
		<-done
	case <-dev.closed:
		return ErrClosed
	}
	switch {
	case panicked != nil:
		panic(panicked)
	case exited:
		runtime.Goexit()
	}
	return err
}

// Close waits for the work under way and gives back everything that is held on
// the device.
func (dev *Device) Close() error {
	dev.once.Do(func() { close(dev.closed) })
	<-dev.ended
	return dev.err
}
