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

// Device is an opened device. A few goroutines, each locked to its thread, make all
// calls for it, because a context of the driver is made current on a thread: so
// many that some may wait for the device while another gives it work.
type Device struct {
	Info

	work   chan func(*Context)
	closed chan struct{} // no work is taken any more
	once   sync.Once
	ended  sync.WaitGroup // the goroutines are gone, errs is set
	mu     sync.Mutex
	errs   error // of giving the context back
}

// threads is the number of calls of Do that run at once.
const threads = 4

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
	dev := &Device{Info: info, work: make(chan func(*Context)), closed: make(chan struct{})}
	for n := range threads {
		opened := make(chan error)
		dev.ended.Add(1)
		go dev.own(d.api, handle, n == 0, opened)
		if err = <-opened; err != nil {
			err = errors.Join(err, dev.Close())
			break
		}
	}
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

// own is a goroutine that makes calls for the device. Its thread ends with it.
func (dev *Device) own(a *api, handle int32, first bool, opened chan<- error) {
	runtime.LockOSThread()
	defer dev.ended.Done()
	if err := retain(a, handle, first); err != nil {
		opened <- err
		return
	}
	opened <- nil
	// Also where work ends the goroutine, as a failing test does.
	defer func() {
		err := release(a, handle)
		dev.mu.Lock()
		dev.errs = errors.Join(dev.errs, err)
		dev.mu.Unlock()
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

// retain makes the device's primary context that of this thread. The first thread
// says how it is made.
func retain(a *api, handle int32, first bool) error {
	if first {
		if err := a.call(callPrimaryCtxSetFlags, uintptr(handle), contextBlockingSync); err != nil {
			return err
		}
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

// Do calls f on a thread of the device and returns what it returns. The context is
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
			if exited { // this goroutine ends: no more work, and Do's caller is to see that
				dev.once.Do(func() { close(dev.closed) })
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
	dev.ended.Wait()
	return dev.errs
}
