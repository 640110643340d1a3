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

// Device is an opened device. A context of the driver is made current on a thread. So
// a goroutine with something to do on the device keeps its thread for as long, and has the
// device's context there.
type Device struct {
	Info

	api     api
	handle  int32
	context uintptr

	mu     sync.RWMutex // held for reading while there is work
	closed bool
	errs   error // of giving the context back
}

// blockingSync is the flag of contexts, and of events, on which waiting
// threads sleep.
const (
	contextBlockingSync = 4
	eventBlockingSync   = 1
)

// Device opens a device. Its first opening takes some hundred milliseconds.
func (d *Driver) Device(ordinal int) (*Device, error) {
	info, handle, err := d.info(ordinal)
	if err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	dev := &Device{Info: info, api: d.api, handle: handle}
	if err = dev.retain(); err == nil {
		return dev, nil
	}
	switch {
	case errors.Is(err, deviceUnavailable), errors.Is(err, notPermitted), errors.Is(err, operatingSystem):
		err = &Unavailable{Forbidden, err}
	case Lost(err):
		err = fmt.Errorf("%w; a kernel failed on it, and it is of no use to this process until that is restarted", err)
	}
	return nil, fmt.Errorf("device %d: %w", ordinal, err)
}

// retain takes the device's primary context, which all of the process share.
func (dev *Device) retain() error {
	if err := dev.api.call("cuDevicePrimaryCtxSetFlags_v2", uintptr(dev.handle), contextBlockingSync); err != nil {
		return err
	}
	if err := dev.api.call("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&dev.context)), uintptr(dev.handle)); err != nil {
		return err
	}
	if err := dev.Do(func(*Context) error { return nil }); err != nil {
		return errors.Join(err, dev.Close())
	}
	return nil
}

// Do calls f while the device's context is the thread's and returns what it returns.
// The context is for f alone and must not be kept. f must not call Do. Several may be
// under way at once: some wait for the device while others give it work.
func (dev *Device) Do(f func(*Context) error) (err error) {
	dev.mu.RLock()
	defer dev.mu.RUnlock()
	if dev.closed {
		return ErrClosed
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := dev.api.call("cuCtxSetCurrent", dev.context); err != nil {
		return err
	}
	// The thread goes on to do something else, also where f panics.
	defer func() {
		if ended := dev.api.call("cuCtxSetCurrent", 0); ended != nil {
			err = errors.Join(err, ended)
		}
	}()
	return f(&Context{api: dev.api})
}

// Apart calls f as Do does, in a context of its own, which is made and given up for it: what f waits for
// keeps no other call waiting. That takes 0.15 s and some hundred MB of the device's memory (H200).
func (dev *Device) Apart(f func(*Context) error) error {
	return dev.Do(func(c *Context) (err error) {
		var own uintptr
		if err := c.call("cuCtxCreate_v2", uintptr(unsafe.Pointer(&own)), contextBlockingSync, uintptr(dev.handle)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.call("cuCtxDestroy_v2", own)) }()
		return f(c)
	})
}

// Close waits for the work under way and gives back everything that is held on
// the device.
func (dev *Device) Close() error {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if !dev.closed {
		dev.closed = true
		dev.errs = dev.api.call("cuDevicePrimaryCtxRelease_v2", uintptr(dev.handle))
	}
	return dev.errs
}

// Info holds the properties of a device, as far as the driver says without opening it.
type Info struct {
	Ordinal         int    `json:"ordinal"`    // the driver's number of it, from 0
	Name            string `json:"name"`       // as the driver has it
	PCIBusID        string `json:"pci_bus_id"` // domain:bus:device.function
	Capability      string `json:"compute_capability"`
	Multiprocessors int    `json:"multiprocessors"`
	MemoryBytes     uint64 `json:"memory_bytes"`

	Major, Minor int `json:"-"` // of Capability
}

// The driver's numbers of device attributes.
const (
	attrMultiprocessors = 16
	attrMemoryClock     = 36 // kHz
	attrMemoryWidth     = 37 // bits
	attrMajor           = 75
	attrMinor           = 76
)

// info reads a device's properties and its handle.
func (d *Driver) info(ordinal int) (Info, int32, error) {
	i := Info{Ordinal: ordinal}
	var dev int32
	if err := d.api.call("cuDeviceGet", uintptr(unsafe.Pointer(&dev)), uintptr(ordinal)); err != nil {
		return i, 0, err
	}
	var err error
	if i.Name, err = d.text("cuDeviceGetName", dev); err != nil {
		return i, 0, err
	}
	if i.PCIBusID, err = d.text("cuDeviceGetPCIBusId", dev); err != nil {
		return i, 0, err
	}
	if err = d.api.call("cuDeviceTotalMem_v2", uintptr(unsafe.Pointer(&i.MemoryBytes)), uintptr(dev)); err != nil {
		return i, 0, err
	}
	for attr, to := range map[uintptr]*int{attrMultiprocessors: &i.Multiprocessors, attrMajor: &i.Major, attrMinor: &i.Minor} {
		if *to, err = d.attribute(dev, attr); err != nil {
			return i, 0, err
		}
	}
	i.Capability = fmt.Sprintf("%d.%d", i.Major, i.Minor)
	return i, dev, nil
}

// attribute reads an attribute of a device.
func (d *Driver) attribute(dev int32, attr uintptr) (int, error) {
	var v int32
	err := d.api.call("cuDeviceGetAttribute", uintptr(unsafe.Pointer(&v)), attr, uintptr(dev))
	return int(v), err
}

// MemoryRate is how many bytes a second a device's memory transfers at most, by its clock and width;
// 0 where the driver does not say. Both edges of the clock transfer.
func (d *Driver) MemoryRate(ordinal int) float64 {
	var dev int32
	if d.api.call("cuDeviceGet", uintptr(unsafe.Pointer(&dev)), uintptr(ordinal)) != nil {
		return 0
	}
	clock, _ := d.attribute(dev, attrMemoryClock)
	width, _ := d.attribute(dev, attrMemoryWidth)
	return 2 * float64(clock) * 1000 * float64(width) / 8
}

// text reads a string that the driver writes into a buffer.
func (d *Driver) text(name string, dev int32) (string, error) {
	buf := make([]byte, 256)
	if err := d.api.call(name, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)-1), uintptr(dev)); err != nil {
		return "", err
	}
	return text(&buf[0]), nil
}
