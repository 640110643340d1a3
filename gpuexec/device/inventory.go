package device

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/probe"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Library is the CUDA driver's library.
const Library = cuda.Library

// Inventory is what a machine has in GPUs.
type Inventory struct {
	Driver  string  `json:"driver,omitempty"` // release, such as 580.95.05
	CUDA    string  `json:"cuda,omitempty"`   // version of its API, such as 13.0
	Devices []Found `json:"devices"`
	Reason  string  `json:"reason,omitempty"` // why there are no devices
}

// Found is one GPU of an inventory and what was measured on it.
type Found struct {
	cuda.Info

	Usable bool   `json:"usable"`
	Reason string `json:"reason,omitempty"` // why it is not usable

	FreeBytes     uint64  `json:"free_bytes,omitempty"`
	ToDevice      float64 `json:"to_device_bytes_per_second,omitempty"`   // from page-locked memory
	FromDevice    float64 `json:"from_device_bytes_per_second,omitempty"` // to page-locked memory
	LaunchSeconds float64 `json:"launch_seconds,omitempty"`               // of a small kernel, launch and wait
	OpenSeconds   float64 `json:"open_seconds,omitempty"`                 // of opening the device
	LoadSeconds   float64 `json:"load_seconds,omitempty"`                 // of loading the kernels
}

// Usable reports whether any device is usable.
func (inv *Inventory) Usable() bool {
	return slices.ContainsFunc(inv.Devices, func(d Found) bool { return d.Usable })
}

// TakeInventory opens each device that the driver's library at path finds, runs a kernel on
// it, and measures it. It takes about a second a device.
func TakeInventory(path string) *Inventory {
	inv := &Inventory{Devices: []Found{}}
	driver, err := cuda.Open(path)
	if err != nil {
		inv.Reason = err.Error()
		return inv
	}
	inv.Driver, inv.CUDA = cuda.Release(), driver.Version()
	infos, err := driver.Devices()
	if err != nil {
		inv.Reason = err.Error()
		return inv
	}
	for _, i := range infos {
		d := Found{Info: i}
		if err := d.examine(driver); err != nil {
			d.Reason = err.Error()
		} else {
			d.Usable = true
		}
		inv.Devices = append(inv.Devices, d)
	}
	return inv
}

// tooOld says why a device cannot run the kernels, or nothing.
func tooOld(i cuda.Info) string {
	if i.Major > abi.MinMajor || i.Major == abi.MinMajor && i.Minor >= abi.MinMinor {
		return ""
	}
	return fmt.Sprintf("its compute capability is %s, and the kernels need %d.%d (Turing, 2018) or later", i.Capability, abi.MinMajor, abi.MinMinor)
}

// examine opens a device and fills in what is measured. Its error is why the
// device is not usable.
func (d *Found) examine(driver *cuda.Driver) (err error) {
	if reason := tooOld(d.Info); reason != "" {
		return errors.New(reason)
	}
	start := time.Now()
	dev, err := driver.Device(d.Ordinal)
	if err != nil {
		return err
	}
	d.OpenSeconds = time.Since(start).Seconds()
	defer func() { err = errors.Join(err, dev.Close()) }()
	if d.FreeBytes, err = freeMemory(dev); err != nil {
		return err
	}
	start = time.Now()
	k, err := launch.Load(dev, nil, append(launch.Queries(), "check")...)
	if err != nil {
		return err
	}
	d.LoadSeconds = time.Since(start).Seconds()
	return dev.Do(func(c *cuda.Context) (err error) {
		defer func() { err = errors.Join(err, k.Unload(c)) }()
		if d.LaunchSeconds, err = probe.CheckKernels(c, k); err != nil {
			return err
		}
		d.ToDevice, d.FromDevice, err = probe.MeasureLink(c, d.FreeBytes)
		return err
	})
}

// State is what a device is and has at a moment. Sizes are in bytes.
type State struct {
	cuda.Info
	Reason  string  `json:"reason,omitempty"` // why it is not used at present
	Leaves  int64   `json:"leaves"`           // under way or waiting
	Typical float64 `json:"typical_seconds"`  // what one takes
	// What follows is 0 where the device is not open.
	Taken    uint64  `json:"taken_bytes"`           // of its memory
	Room     uint64  `json:"resident_limit_bytes"`  // of that, for chunks to stay in
	Resident uint64  `json:"resident_bytes"`        // of that, in use
	Link     float64 `json:"link_bytes_per_second"` // measured, to the device
	// Memory is what the device's memory can do by its clock and width; 0 where the driver does
	// not say.
	Memory float64 `json:"memory_bytes_per_second"`
}

// State returns the state of the device.
func (d *Device) State() State {
	s := State{
		Info: d.info, Reason: d.Unusable(time.Now()),
		Leaves: d.leaves.Load(), Typical: time.Duration(d.typical.Load()).Seconds(), Memory: d.driver.MemoryRate(d.info.Ordinal),
	}
	_ = d.opened(func() error {
		s.Resident, s.Room = d.x.Store.Used()
		s.Taken, s.Link = d.x.Memory+s.Room, d.x.Link
		return nil
	})
	return s
}
