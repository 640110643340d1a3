package cuda

import (
	"unsafe"
)

// Info holds the properties of a device.
type Info struct {
	Ordinal         int    // the driver's number of it, from 0
	Name            string // as the driver has it
	PCIBusID        string // domain:bus:device.function
	MemoryBytes     uint64
	Major, Minor    int // compute capability
	Multiprocessors int
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
	if err := d.api.call(callDeviceGet, uintptr(unsafe.Pointer(&dev)), uintptr(ordinal)); err != nil {
		return i, 0, err
	}
	var err error
	if i.Name, err = d.text(callDeviceGetName, dev); err != nil {
		return i, 0, err
	}
	if i.PCIBusID, err = d.text(callDeviceGetPCIBusID, dev); err != nil {
		return i, 0, err
	}
	if err = d.api.call(callDeviceTotalMem, uintptr(unsafe.Pointer(&i.MemoryBytes)), uintptr(dev)); err != nil {
		return i, 0, err
	}
	for attr, to := range map[uintptr]*int{attrMultiprocessors: &i.Multiprocessors, attrMajor: &i.Major, attrMinor: &i.Minor} {
		var v int32
		if err = d.api.call(callDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), attr, uintptr(dev)); err != nil {
			return i, 0, err
		}
		*to = int(v)
	}
	return i, dev, nil
}

// MemoryRate is how many bytes a second a device's memory transfers at most, by its clock and width;
// 0 where the driver does not say. Both edges of the clock transfer.
func (d *Driver) MemoryRate(ordinal int) float64 {
	var dev int32
	if d.api.call(callDeviceGet, uintptr(unsafe.Pointer(&dev)), uintptr(ordinal)) != nil {
		return 0
	}
	rate := 2.0 * 1000 / 8
	for _, attr := range []uintptr{attrMemoryClock, attrMemoryWidth} {
		var v int32
		if d.api.call(callDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), attr, uintptr(dev)) != nil {
			return 0
		}
		rate *= float64(v)
	}
	return rate
}

// text reads a string that the driver writes into a buffer.
func (d *Driver) text(c call, dev int32) (string, error) {
	buf := make([]byte, 256)
	if err := d.api.call(c, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)-1), uintptr(dev)); err != nil {
		return "", err
	}
	return text(&buf[0]), nil
}
